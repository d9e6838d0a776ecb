// The borrowed files of one daemon thread: found by descriptor, and given back when they are closed
// and no request uses them.
#include <host-daemon/engine/local_files.hpp>

#include <test/daemon/harness.hpp>

#include <doctest/doctest.h>

#include <set>

#include <sys/stat.h>

using namespace gpufs::daemon;
using gpufs::test::region_memory;
using gpufs::test::scratch_folder;
using gpufs::test::write_range;

namespace {

// Notes the descriptors that the engine was told to forget.
struct forgetful final : io_engine {
  std::multiset<std::int32_t> forgotten;

  int attach() override { return 0; }
  std::size_t room() const override { return 1; }
  std::optional<std::int64_t> submit(read_operation const&) override { return 0; }
  std::size_t poll(std::span<read_result>) override { return 0; }
  void wait(std::chrono::microseconds) override {}
  void forget(local_file& file) override { forgotten.insert(file.descriptor); }
};

std::uint64_t inode(local_file const& file) {
  struct ::stat s {};
  return ::fstat(file.host->read_descriptor(), &s) == 0 ? s.st_ino : 0;
}

std::uint64_t inode(std::string const& path) {
  struct ::stat s {};
  return ::stat(path.c_str(), &s) == 0 ? s.st_ino : 0;
}

struct setup {
  explicit setup(std::uint64_t most) : memory{8, 8, 4096, most} {
    write_range(folder / "a", 0, 1);
    write_range(folder / "b", 0, 2);
  }
  scratch_folder folder;
  region_memory memory;
  file_registry registry{memory.region};
  forgetful engine;
  local_files files{registry, engine};
};

}  // namespace

TEST_CASE("local files: a file is borrowed once and kept until its descriptor is closed") {
  setup s{4};
  auto const fd = s.registry.open(s.folder / "a", O_RDONLY);
  auto* const file = s.files.use(fd);
  REQUIRE(file != nullptr);
  CHECK(file->descriptor == fd);
  CHECK(s.files.use(fd) == file);
  CHECK(file->in_use == 2);
  s.files.done(file);
  s.files.done(file);
  s.files.refresh();
  CHECK(s.files.use(fd) == file);
  s.files.done(file);
  s.registry.close(fd);
  CHECK(s.files.use(fd) == nullptr);
  CHECK(s.engine.forgotten.empty());
  s.files.refresh();
  CHECK(s.engine.forgotten == std::multiset{fd});
}

TEST_CASE("local files: what a request still uses is given back when that request is done") {
  setup s{4};
  auto const fd = s.registry.open(s.folder / "a", O_RDONLY);
  auto* const file = s.files.use(fd);
  s.registry.close(fd);
  s.files.refresh();
  CHECK(s.engine.forgotten.empty());
  CHECK(inode(*file) == inode(s.folder / "a"));
  s.files.done(file);
  CHECK(s.engine.forgotten == std::multiset{fd});
}

TEST_CASE(
    "local files: a place taken by another file is not confused with the old one, seen closed or "
    "not") {
  setup s{1};
  auto const a = s.registry.open(s.folder / "a", O_RDONLY);
  auto* const old = s.files.use(a);
  s.registry.close(a);
  auto const b = s.registry.open(s.folder / "b", O_RDONLY);
  REQUIRE(b > 0);
  auto* const file = s.files.use(b);
  REQUIRE(file != nullptr);
  CHECK(inode(*file) == inode(s.folder / "b"));
  CHECK(inode(*old) == inode(s.folder / "a"));
  s.files.refresh();
  CHECK(s.files.use(b) == file);
  s.files.done(file);
  s.files.done(file);
  s.files.done(old);
  CHECK(s.engine.forgotten == std::multiset{a});
}

TEST_CASE(
    "local files: more closes than the log holds: all closed files are given back, no open one") {
  setup s{8};
  auto const kept = s.registry.open(s.folder / "a", O_RDONLY);
  auto* const file = s.files.use(kept);
  s.files.done(file);
  auto const closed = s.registry.open(s.folder / "b", O_RDONLY);
  s.files.done(s.files.use(closed));
  s.registry.close(closed);
  for (std::uint64_t i = 0; i < close_log::length; ++i)
    s.registry.close(s.registry.open(s.folder / "b", O_RDONLY));
  s.files.refresh();
  CHECK(s.engine.forgotten == std::multiset{closed});
  CHECK(s.files.use(kept) == file);
  s.files.done(file);
}

TEST_CASE("local files: exactly as many closes as the log holds are all found in it") {
  setup s{8};
  auto const closed = s.registry.open(s.folder / "b", O_RDONLY);
  s.files.done(s.files.use(closed));
  s.registry.close(closed);
  for (std::uint64_t i = 1; i < close_log::length; ++i)
    s.registry.close(s.registry.open(s.folder / "b", O_RDONLY));
  s.files.refresh();
  CHECK(s.engine.forgotten == std::multiset{closed});
}
