// Calls of mappings at the edges: empty ones, objects without a file, objects in use, children of
// fork(), files that are not in the OS page cache, settings out of bounds.
#include <gpufs/config.hpp>
#include <gpufs/mapping.hpp>

#include <test/mapping/kernels.hpp>
#include <test/mapping/named_file.hpp>
#include <test/support/files.hpp>

#include <doctest/doctest.h>

#include <cerrno>
#include <cstdint>
#include <functional>
#include <vector>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace gpufs;
using namespace gpufs::test;

namespace {

using words = std::vector<std::uint32_t>;
constexpr std::uint64_t kibi = 1 << 10;

__global__ void count_up(std::uint32_t* to, std::uint64_t count) {
  for (auto i = thread_number(); i < count; i += thread_count()) ++to[i];
}

}  // namespace

TEST_CASE("an empty mapping refuses every call") {
  mapping none;
  CHECK(none.sync() == -EINVAL);
  CHECK(none.write_back() == -EINVAL);
  CHECK(none.refresh() == -EINVAL);
  CHECK(none.discard() == -EINVAL);
  CHECK(none.remap(access::read) == -EINVAL);
  CHECK(none.acquire(0, 0, access::read) == -EINVAL);
  CHECK(none.prefetch_to_device(0, 0) == -EINVAL);
  CHECK(none.errors().empty());
  CHECK(none.unwritten().empty());
  CHECK(none.stats().fill_bytes == 0);
  CHECK(none.unmap() == 0);
}

TEST_CASE("calls for files do nothing to objects without one") {
  shared_memory memory;
  mapping m = memory.allocate(9000);
  m.as<std::uint32_t>()[5] = 7;
  CHECK(m.sync() == 0);
  CHECK(m.refresh() == 0);
  CHECK(m.discard() == 0);
  CHECK(m.errors().empty());
  CHECK(m.unwritten().empty());
  CHECK(m.as<std::uint32_t>()[5] == 7);
  CHECK(m.sync(0, 9001) == -EINVAL);
  CHECK(m.prefetch_to_device(9000, 1) == -EINVAL);
  named_file const file(words(2048, 1));
  mapping const readable = memory.map(file.path());
  CHECK(readable.unwritten().empty());
}

TEST_CASE("an object that a call uses is neither refreshed nor remapped") {
  named_file const file(words(64 * kibi, 1));
  shared_memory memory;
  mapping m = memory.map(file.path(), {.access = access::read_write});
  {
    shared_call call;
    call.reads(m);
    REQUIRE(call.release() == 0);
    CHECK(m.refresh() == -EBUSY);
    CHECK(m.remap(access::read) == -EBUSY);
  }
  memory.synchronize();
  CHECK(m.remap(access::read_write) == 0);  // as it is
  CHECK(m.refresh() == 0);
}

TEST_CASE("refresh: a file that nobody has changed, and one that is shorter") {
  named_file const file(words(64 * kibi, 1));
  let_stamps_age(file.path());
  shared_memory memory;
  mapping m = memory.map(file.path(), {.access = access::read_write});
  CHECK(m.as<std::uint32_t>()[9] == 1);
  CHECK(m.refresh() == 0);
  CHECK(m.as<std::uint32_t>()[9] == 1);
  REQUIRE(::truncate(file.path().c_str(), 4096) == 0);
  CHECK(m.refresh() == -ESTALE);
  CHECK(m.errors().size() == 1);
  for (auto const use : {access::read, access::write}) CHECK(m.remap(use) == -ESTALE);
}

TEST_CASE("refresh: what others wrote where a call might have shows once that is written back") {
  named_file const file(words(64 * kibi, 1));
  let_stamps_age(file.path());
  shared_memory memory;
  mapping m = memory.map(file.path(), {.access = access::read_write});
  // It may write to the object, and does not.
  launch(count_up, 1, 64, m.as<std::uint32_t>(), std::uint64_t(0));
  memory.synchronize();
  file.write({5}, 0);
  let_stamps_age(file.path());
  CHECK(m.refresh() == 0);
  CHECK(m.write_back() == 0);
  CHECK(m.stats().writeback_pages == 0);
  CHECK(m.refresh() == 0);
  CHECK(m.as<std::uint32_t>()[0] == 5);
  CHECK(m.as<std::uint32_t>()[1] == 1);
}

TEST_CASE("a new file's object sees what others write to it; scratch objects are zeros again") {
  named_file const made, scratch;
  shared_memory memory;
  mapping m =
      memory.map(made.path(), {.access = access::read_write, .create = true, .length = 256 * kibi});
  made.write({5, 6, 7}, 64 * kibi);
  CHECK(m.refresh() == 0);
  CHECK(m.as<std::uint32_t>()[16 * kibi + 1] == 6);
  mapping s = memory.map(
      scratch.path(),
      {.access = access::read_write, .create = true, .length = 256 * kibi, .scratch = true});
  launch(count_up, 1, 64, s.as<std::uint32_t>(), std::uint64_t(100));
  memory.synchronize();
  CHECK(s.as<std::uint32_t>()[5] == 1);
  CHECK(s.remap(access::read) == -EINVAL);
  CHECK(s.refresh() == 0);
  CHECK(s.as<std::uint32_t>()[5] == 1);
  CHECK(s.discard() == 0);
  CHECK(s.as<std::uint32_t>()[5] == 0);
}

TEST_CASE("truncate drops what the file had, also without create") {
  named_file const file(words(64 * kibi, 9));
  shared_memory memory;
  mapping m = memory.map(
      file.path(), {.access = access::write, .create = true, .truncate = true, .length = 4096});
  CHECK(m.as<std::uint32_t>()[0] == 0);
  CHECK(m.unmap() == 0);
  CHECK(file.content() == words(1024, 0));
}

TEST_CASE("a file that is not in the OS page cache") {
  words content(2048 * kibi);
  for (std::uint64_t i = 0; i < content.size(); ++i) content[i] = std::uint32_t(i * 3);
  named_file const file(content);
  int const fd = ::open(file.path().c_str(), O_RDONLY | O_CLOEXEC);
  REQUIRE(::fdatasync(fd) == 0);
  REQUIRE(::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) == 0);
  ::close(fd);
  shared_memory memory;
  mapping const m = memory.map(file.path(), {.access = access::read_write, .eager = true});
  bool right = true;
  for (std::uint64_t i = 0; i < content.size(); i += 97)
    right = right && m.as<std::uint32_t>()[i] == content[i];
  CHECK(right);
  CHECK(m.stats().fill_bytes == content.size() * 4);
  CHECK(m.stats().direct_fill_bytes <= m.stats().fill_bytes);
}

TEST_CASE("a child of fork() is refused every call for files, and waits for nothing") {
  named_file const file(words(8 * kibi, 1));
  shared_memory memory;
  mapping m = memory.map(file.path(), {.access = access::read_write});
  m.as<std::uint32_t>()[0] = 2;
  pid_t const pid = ::fork();
  if (pid == 0) {
    bool const right = m.sync() == -EIO && m.refresh() == -EIO && m.discard() == -EIO &&
                       m.remap(access::write) == -EIO && m.errors().empty() &&
                       m.unwritten().empty() && m.acquire(0, 4, access::read) == -EIO;
    ::_exit(right ? 0 : 1);
  }
  REQUIRE(pid > 0);
  int status = 0;
  REQUIRE(::waitpid(pid, &status, 0) == pid);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}

TEST_CASE("settings out of bounds are refused") {
  auto const refused = [](std::function<void(mapping_config&)> const& set) {
    mapping_config c;
    set(c);
    CHECK_THROWS_AS(shared_memory{c}, config_error);
  };
  refused([](auto& c) { c.address_space = 1ull << 50; });
  refused([](auto& c) { c.address_space = (1ull << 40) + 4096; });
  refused([](auto& c) { c.coherence_block = 2048; });
  refused([](auto& c) { c.coherence_block = 64 << 20; });
  refused([](auto& c) { c.rolling_per_object = 1025; });
  refused([](auto& c) { c.rolling_patience = (1 << 20) + 1; });
  refused([](auto& c) { c.fill_threads = 0; });
  refused([](auto& c) { c.fill_threads = 257; });
}
