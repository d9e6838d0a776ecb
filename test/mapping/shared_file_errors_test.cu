// Files that cannot be mapped, read or written: every error is named, and nothing is lost.
#include <gpufs/config.hpp>
#include <gpufs/mapping.hpp>
#include <gpufs/owner/shared_file.hpp>

#include <test/mapping/kernels.hpp>
#include <test/mapping/memory_file.hpp>
#include <test/mapping/named_file.hpp>
#include <test/support/child.hpp>
#include <test/support/files.hpp>

#include <doctest/doctest.h>

#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

using namespace gpufs;
using namespace gpufs::test;

namespace {

constexpr std::uint64_t kibi = 1 << 10;

__global__ void count_up(std::uint32_t* words, std::uint64_t count) {
  for (auto i = thread_number(); i < count; i += thread_count()) ++words[i];
}

struct failure {
  int code;
  std::string text;
};

/// The error of a shared_memory_error that something throws.
template <class Call>
failure refused(Call const& call) {
  try {
    call();
  } catch (shared_memory_error const& e) {
    return {e.code(), e.what()};
  }
  return {0, ""};
}

bool has(std::string const& text, std::string const& part) {
  return text.find(part) != std::string::npos;
}

/// While it lives, this process may not make files longer than `bytes`.
class file_size_limit {
 public:
  explicit file_size_limit(std::uint64_t bytes) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    rlimit lower = before_;
    lower.rlim_cur = bytes;
    ::setrlimit(RLIMIT_FSIZE, &lower);
  }
  ~file_size_limit() { ::setrlimit(RLIMIT_FSIZE, &before_); }
  file_size_limit(file_size_limit const&) = delete;
  file_size_limit& operator=(file_size_limit const&) = delete;

 private:
  rlimit before_;
};

}  // namespace

TEST_CASE("files that cannot be mapped are named, with the reason") {
  named_file const file(std::vector<std::uint32_t>(2048, 1));
  scratch_folder const folder;
  shared_memory memory;
  auto const map = [&](std::string const& path, map_options const& options = {}) {
    return refused([&] { static_cast<void>(memory.map(path, options)); });
  };
  auto const missing = map(folder / "missing");
  CHECK(missing.code == ENOENT);
  CHECK(has(missing.text, folder / "missing"));
  CHECK(map(folder.path()).code == EISDIR);
  CHECK(map("/dev/null").code == EOPNOTSUPP);
  CHECK(map(file.path() + std::string(1, '\0') + "x").code == EINVAL);
  CHECK(map(file.path(), {.length = 8193}).code == EINVAL);
  CHECK(map(file.path(), {.offset = 8192}).code == EINVAL);
  CHECK(map(folder / "new", {.access = access::write, .create = true}).code == EINVAL);
  CHECK(!std::filesystem::exists(folder / "new"));
  CHECK_THROWS_AS(static_cast<void>(memory.map(file.path(), {.offset = 100})), config_error);
  CHECK_THROWS_AS(static_cast<void>(memory.map(file.path(), {.create = true})), config_error);
  CHECK_THROWS_AS(static_cast<void>(memory.map(file.path(), {.truncate = true})), config_error);
  CHECK_THROWS_AS(
      static_cast<void>(memory.map(file.path(), {.protocol = coherence_protocol::batch})),
      config_error);
  CHECK(refused([&] { static_cast<void>(memory.map(-1)); }).code == EBADF);
}

TEST_CASE("a file is not mapped with the protocol batch of the settings") {
  named_file const file(std::vector<std::uint32_t>(2048, 1));
  mapping_config settings;
  settings.protocol = coherence_protocol::batch;
  shared_memory memory(settings);
  try {
    static_cast<void>(memory.map(file.path(), {.access = access::read_write}));
    FAIL("it was mapped");
  } catch (config_error const& e) {
    CHECK(std::string(e.what()) ==
          "protocol=batch: must be lazy or rolling for an object with a file");
  }
  mapping m = memory.map(file.path(),
                         {.access = access::read_write, .protocol = coherence_protocol::rolling});
  launch(count_up, 1, 64, m.as<std::uint32_t>(), std::uint64_t(2048));
  CHECK(m.unmap() == 0);
  CHECK(file.content() == std::vector<std::uint32_t>(2048, 2));
}

TEST_CASE("coherent objects are refused, with what to do in their place") {
  named_file const file(std::vector<std::uint32_t>(2048, 1));
  shared_memory memory;
  map_options coherent;
  coherent.access = access::read_write;
  coherent.coherent = true;
  for (bool const has_file : {true, false}) {
    CAPTURE(has_file);
    try {
      static_cast<void>(has_file ? memory.map(file.path(), coherent)
                                 : memory.allocate(4096, coherent));
      FAIL("it was made");
    } catch (config_error const& e) {
      CHECK(std::string(e.what()).starts_with("coherent=true: must be false"));
      CHECK(std::string(e.what()).find("one writer") != std::string::npos);
    }
  }
}

TEST_CASE("a file has one writable object of a process, by whatever name") {
  named_file const file(std::vector<std::uint32_t>(2048, 1));
  auto const link = file.path() + ".link";
  std::filesystem::create_hard_link(file.path(), link);
  shared_memory memory, other;
  std::optional<mapping> first = memory.map(file.path(), {.access = access::read_write});
  auto const second =
      refused([&] { static_cast<void>(other.map(link, {.access = access::write})); });
  CHECK(second.code == EBUSY);
  CHECK(has(second.text, link));
  CHECK(memory.map(link).size() == 8192);  // reading goes
  first.reset();
  CHECK(other.map(link, {.access = access::write}).size() == 8192);
}

TEST_CASE("a launch is refused while the file is too short, and runs when it is long enough") {
  constexpr std::uint64_t words = 64 * kibi;
  named_file const file(std::vector<std::uint32_t>(words, 5));
  shared_memory memory;
  mapping const m = memory.map(file.path(), {.access = access::read_write});
  REQUIRE(::truncate(file.path().c_str(), 4096) == 0);
  auto const launched = [&] {
    launch(count_up, 1, 64, m.as<std::uint32_t>(), words);
    memory.synchronize();
  };
  auto const error = refused(launched);
  CHECK(error.code == ESTALE);
  CHECK(has(error.text, file.path()));
  CHECK(m.errors().size() >= 1);
  shared_call call;
  call.reads(m);
  CHECK(call.release() == -ESTALE);
  CHECK(has(call.why_refused(), file.path()));
  file.write(std::vector<std::uint32_t>(words, 6), 0);
  launched();
  CHECK(m.as<std::uint32_t>()[words - 1] == 7);
}

TEST_CASE("child: touches bytes that the file does not have") {
  if (!is_part("touches bytes that the file does not have")) return;
  named_file const file(std::vector<std::uint32_t>(64 * kibi, 5));
  shared_memory memory;
  mapping const m = memory.map(file.path(), {.access = access::read_write});
  if (::truncate(file.path().c_str(), 4096) != 0) return;
  static_cast<void>(*const_cast<std::uint32_t volatile*>(m.as<std::uint32_t>()));
}

TEST_CASE("a CPU thread that touches them gets SIGBUS, and stderr names the file") {
  scratch_folder folder;
  std::string const output = folder / "output";
  child c("touches bytes that the file does not have", folder / "nothing", {.output_to = output});
  CHECK(!c.succeeds());
  auto const text = text_of(output);
  CHECK(has(text, "the file became shorter"));
  CHECK(has(text, "/data: offset 0"));
}

TEST_CASE("what could not be written stays for the next call, and is listed") {
  constexpr std::uint64_t words = 64 * kibi;
  named_file const file(std::vector<std::uint32_t>(words, 5));
  shared_memory memory;
  mapping m = memory.map(file.path(), {.access = access::read_write, .block = 64 * kibi});
  launch(count_up, 1, 64, m.as<std::uint32_t>(), words);
  {
    file_size_limit const limit(100 * kibi);
    CHECK(m.sync() == -EFBIG);
  }
  CHECK(m.unwritten().size() >= 1);
  CHECK(m.errors().size() >= 1);
  CHECK(m.sync() == 0);
  CHECK(m.unwritten().empty());
  CHECK(file.content() == std::vector<std::uint32_t>(words, 6));
}

TEST_CASE("a file that nobody may write to any more: sync() and unmap() say so") {
  memory_file const file(std::vector<std::uint32_t>(4096, 5));
  int const sealable = ::memfd_create("gpufs-test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  REQUIRE(::ftruncate(sealable, 16384) == 0);
  shared_memory memory;
  mapping m = memory.map(sealable, {.access = access::read_write});
  m.as<std::uint32_t>()[5] = 1;
  REQUIRE(::fcntl(sealable, F_ADD_SEALS, F_SEAL_WRITE) == 0);
  CHECK(m.sync() == -EPERM);
  CHECK(m.sync() == -EPERM);  // it is still not written
  CHECK(m.discard() == 0);
  CHECK(m.as<std::uint32_t>()[5] == 0);
  CHECK(m.sync() == 0);
  m.as<std::uint32_t>()[6] = 1;
  CHECK(m.unmap() == -EPERM);
  ::close(sealable);
}

TEST_CASE("stores against access read: the CPU gets SIGSEGV, a declared call is refused") {
  named_file const file(std::vector<std::uint32_t>(2048, 1));
  shared_memory memory;
  mapping m = memory.map(file.path());
  shared_call call;
  call.writes(m);
  CHECK(call.release() == -EACCES);
  CHECK(m.acquire(0, 4096, access::write) == -EACCES);
  CHECK(m.acquire(0, 4096, access::read) == 0);
}

TEST_CASE("new files that the file system cannot hold are refused, and leave what was there") {
  scratch_folder const folder;
  named_file const file(std::vector<std::uint32_t>(2048, 1));
  shared_memory memory;
  file_size_limit const limit(64 * kibi);
  auto const error = refused([&] {
    static_cast<void>(
        memory.map(file.path(), {.access = access::write, .create = true, .length = 1024 * kibi}));
  });
  CHECK(error.code == EFBIG);
  CHECK(file.content() == std::vector<std::uint32_t>(2048, 1));
}

TEST_CASE("files that are refused for want of room: new ones go, and truncate drops nothing") {
  scratch_folder const folder;
  auto const path = folder / "new";
  named_file const old(std::vector<std::uint32_t>(kibi, 7));
  shared_memory memory;
  {
    file_size_limit const limit(64 * kibi);
    for (bool const truncates : {false, true}) {
      map_options const o{
          .access = access::write, .create = true, .truncate = truncates, .length = 1024 * kibi};
      CHECK(refused([&] { static_cast<void>(memory.map(path, o)); }).code == EFBIG);
      CHECK_FALSE(std::filesystem::exists(path));
      CHECK(refused([&] { static_cast<void>(memory.map(old.path(), o)); }).code == EFBIG);
      CHECK(old.content() == std::vector<std::uint32_t>(kibi, 7));
    }
  }
  mapping const m =
      memory.map(path, {.access = access::write, .create = true, .length = 1024 * kibi});
  CHECK(std::filesystem::file_size(path) == 1024 * kibi);
}

TEST_CASE("a path of a setting that needs a working folder, where there is none") {
  int const before = ::open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  REQUIRE(before >= 0);
  {
    scratch_folder const folder;
    REQUIRE(::chdir(folder.path().c_str()) == 0);
    std::filesystem::remove(folder.path());
    for (bool const spills : {false, true}) {
      mapping_config settings;
      (spills ? settings.spill_dir : settings.mapping_profile) = "here";
      CHECK_THROWS_AS(shared_memory{settings}, config_error);
    }
  }
  REQUIRE(::fchdir(before) == 0);
  ::close(before);
}

TEST_CASE("a file that others make longer while it is mapped keeps their bytes") {
  for (bool const is_scratch : {false, true}) {
    CAPTURE(is_scratch);
    named_file const file;
    file.write({7}, 0);
    auto const opened = owner::open_to_map(
        file.path(), file.path(),
        {.access = access::read_write, .create = true, .length = 64 * kibi, .scratch = is_scratch});
    file.write({8}, 128 * kibi - 4);
    opened.prepare();
    CHECK(std::filesystem::file_size(file.path()) == 128 * kibi);
    CHECK(file.content().front() == 7);
    CHECK(file.content().back() == 8);
  }
}

TEST_CASE("child: cuts a file with holes on a full disk") {
  if (!is_part("cuts a file with holes on a full disk")) return;
  auto const path = given_path() + "/data";
  std::uint32_t const old = 7;
  int const fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  REQUIRE(::pwrite(fd, &old, sizeof old, 0) == ssize_t(sizeof old));
  REQUIRE(::ftruncate(fd, 4096 * kibi) == 0);
  // In managed memory all pages count as written.
  mapping_config managed;
  managed.backing = memory_backing::managed;
  managed.detect_writes = write_detection::all;
  for (auto const& settings : {mapping_config{}, managed}) {
    shared_memory memory(settings);
    for (std::uint64_t const length : {2048 * kibi, 8192 * kibi}) {
      auto const error = refused([&] {
        static_cast<void>(memory.map(
            path, {.access = access::write, .create = true, .truncate = true, .length = length}));
      });
      CHECK(error.code == ENOSPC);
      std::uint32_t now = 0;
      CHECK(::pread(fd, &now, sizeof now, 0) == ssize_t(sizeof now));
      CHECK(now == old);
      CHECK(std::filesystem::file_size(path) == 4096 * kibi);
    }
  }
  shared_memory memory;
  mapping const m = memory.map(
      path, {.access = access::write, .create = true, .truncate = true, .length = 256 * kibi});
  CHECK(std::filesystem::file_size(path) == 256 * kibi);
  ::close(fd);
}

TEST_CASE("truncate drops nothing of a file with holes for which there is no room") {
  scratch_folder const folder;
  child c("cuts a file with holes on a full disk", folder.path(), {.tmpfs_bytes = 1024 * kibi});
  if (!c.refused().empty()) {
    MESSAGE("not run: " << c.refused());
    return;
  }
  CHECK(c.succeeds());
}
