// The marks of write buffers: what opens, closes, flushes and stats look at among many buffers.
#include <host-daemon/backend/stored_file.hpp>
#include <host-daemon/base/open_kind.hpp>
#include <host-daemon/files/file_registry.hpp>
#include <host-daemon/write_back/write_back.hpp>

#include <test/daemon/harness.hpp>
#include <test/daemon/many_buffers.hpp>
#include <test/support/settings.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include <sys/uio.h>

using gpufs::daemon::file_registry;
using gpufs::daemon::write_back;
using gpufs::test::many_buffers;
using gpufs::test::scratch_folder;
namespace rpc = gpufs::rpc;

namespace {

constexpr auto page_shift = many_buffers::page_shift;

/// What fs.write does: the file gets a new version. Returns 0 or -errno.
std::int32_t write_a_byte(file_registry& files, std::int32_t fd) {
  return files.write(fd, [](gpufs::daemon::stored_file const& file) {
    char byte = 'y';
    ::iovec const part{&byte, 1};
    return file.write({&part, 1}, 0) == 1;
  });
}

// How many buffers `work` looks at.
template <class Work>
std::uint64_t looks(write_back const& writes, Work work) {
  auto const before = writes.looks();
  work();
  return writes.looks() - before;
}

std::uint64_t dirty_bytes(std::string const& path) {
  std::uint64_t found = 0;
  for (auto const b : gpufs::test::pread_bytes(path, 0, ~0ull)) found += b == std::byte{'x'};
  return found;
}

}  // namespace

TEST_CASE("write marks: opening, closing, stat and sync of a clean file look at no buffer") {
  scratch_folder folder;
  many_buffers memory;
  write_back writes{memory.region.writes, nullptr};
  file_registry files{memory.region, {}, &writes};
  auto const other = files.open(folder / "other", O_RDWR | O_CREAT, 0644);
  for (std::uint64_t i = 0; i < 500; ++i) memory.dirty(i * 199, memory.version(other), i);
  CHECK(looks(writes, [&] {
          for (int i = 0; i < 20; ++i) {
            auto const fd = files.open(folder / "file", O_RDWR | O_CREAT, 0644);
            rpc::file_status status{};
            CHECK(files.stat(fd, status) == 0);
            CHECK(files.sync(fd) == 0);
            CHECK(write_a_byte(files, fd) == 0);
            CHECK(files.close(fd) == 0);
          }
        }) == 0);
  // Each of these looks at the dirty buffers of the file, and at few of them more than once.
  rpc::file_status status{};
  CHECK(looks(writes, [&] { CHECK(files.stat(other, status) == 0); }) == 500);
  CHECK(status.size == (499 << page_shift) + 1);
  CHECK(looks(writes, [&] { CHECK(writes.unwritten().size() == 500); }) == 500);
  CHECK(looks(writes, [&] { CHECK(files.close(other) == 0); }) <= 500);
  CHECK(dirty_bytes(folder / "other") == 500);
  CHECK(looks(writes, [&] { CHECK(writes.flush(nullptr) == 0); }) == 0);
}

TEST_CASE("write marks: background threads look at no buffer while nothing is dirty") {
  scratch_folder folder;
  many_buffers memory;
  write_back writes{memory.region.writes, nullptr};
  file_registry files{memory.region, {}, &writes};
  writes.start(4);
  auto const fd = files.open(folder / "file", O_RDWR | O_CREAT, 0644);
  CHECK(writes.looks() == 0);
  // The threads find what becomes dirty, wherever it is, also again and again.
  std::uint64_t page = 0;
  for (std::uint64_t round = 0; round < 10; ++round) {
    for (std::uint64_t const i : {0, 63, 64, 9999, 50'000, 99'935, 99'999})
      memory.dirty(i, memory.version(fd), page++);
    gpufs::test::wait_until([&] { return writes.unwritten().empty(); }, "written back");
    CHECK(dirty_bytes(folder / "file") == page);
  }
  // A pass over the buffers that began while some were dirty may not have ended yet.
  gpufs::test::wait_until([&] { return looks(writes, [&] { CHECK(files.sync(fd) == 0); }) == 0; },
                          "no more looks");
  writes.stop();
  CHECK(looks(writes, [&] { CHECK(files.sync(fd) == 0); }) == 0);
  CHECK(files.close(fd) == 0);
}

TEST_CASE("write marks: a buffer with a mark that was never posted is clean and stays marked") {
  scratch_folder folder;
  many_buffers memory;
  write_back writes{memory.region.writes, nullptr};
  file_registry files{memory.region, {}, &writes};
  auto const fd = files.open(folder / "file", O_RDWR | O_CREAT, 0644);
  memory.mark(77, memory.version(fd));
  CHECK(files.sync(fd) == 0);
  CHECK(writes.unwritten().empty());
  CHECK(memory.marked(77));
  memory.dirty(77, memory.version(fd), 3);
  CHECK(writes.unwritten().size() == 1);
  CHECK(files.sync(fd) == 0);
  CHECK_FALSE(memory.marked(77));
  CHECK(dirty_bytes(folder / "file") == 1);
  CHECK(files.close(fd) == 0);
}

TEST_CASE("write marks: files whose versions share a mark are told apart") {
  scratch_folder folder;
  many_buffers memory;
  write_back writes{memory.region.writes, nullptr};
  file_registry files{memory.region, {}, &writes};
  auto const a = files.open(folder / "a", O_RDWR | O_CREAT, 0644);
  // Each file has a series of versions. The next one with a's mark is b.
  std::int32_t b = 0;
  std::string path_of_b;
  for (int i = 0; b == 0; ++i) {
    REQUIRE(i < 300);
    path_of_b = folder / (std::to_string(i) + ".b");
    b = files.open(path_of_b, O_RDWR | O_CREAT, 0644);
    REQUIRE(b > 0);
    if (rpc::mark_of(memory.version(b)) == rpc::mark_of(memory.version(a))) break;
    REQUIRE(files.close(b) == 0);
    b = 0;
  }
  REQUIRE(memory.version(b) != memory.version(a));
  memory.dirty(5, memory.version(a), 1);
  memory.dirty(6, memory.version(b), 2);
  CHECK(files.sync(a) == 0);
  CHECK(dirty_bytes(folder / "a") == 1);
  CHECK(dirty_bytes(path_of_b) == 0);
  CHECK(writes.unwritten().size() == 1);
  CHECK(files.close(b) == 0);
  CHECK(dirty_bytes(path_of_b) == 1);
  CHECK(files.close(a) == 0);
}

TEST_CASE("write back: a file that gets many versions while it is open takes no more memory") {
  scratch_folder folder;
  many_buffers memory;
  write_back writes{memory.region.writes, nullptr};
  file_registry files{memory.region, {}, &writes};
  auto const fd = files.open(folder / "file", O_RDWR | O_CREAT, 0644);
  auto const once = files.open(folder / "file", O_WRONLY | gpufs::daemon::write_once, 0644);
  auto const other = files.open(folder / "other", O_RDWR | O_CREAT, 0644);
  REQUIRE(once > 0);
  CHECK(writes.attached() == 3);
  auto const first = memory.version(fd);
  memory.dirty(1, first, 1);
  for (int i = 0; i < 1000; ++i) {
    REQUIRE(write_a_byte(files, fd) == 0);
    REQUIRE(write_a_byte(files, other) == 0);
  }
  CHECK(memory.version(fd) != first);
  CHECK(writes.attached() == 3);
  // A page of any of its versions finds the file.
  memory.dirty(1, first, 2);
  memory.dirty(2, memory.version(fd) - 1, 3);
  memory.dirty(3, memory.version(fd), 4);
  CHECK(files.sync(fd) == 0);
  CHECK(dirty_bytes(folder / "file") == 4);
  CHECK(files.close(once) == 0);
  CHECK(files.close(fd) == 0);
  CHECK(writes.attached() == 1);
  CHECK(files.close(other) == 0);
  CHECK(writes.attached() == 0);
}

// Four threads drop one file's pages, while two use each a buffer for that file and another in
// turn.
TEST_CASE("write back: a buffer that was taken for another file is not discarded") {
  constexpr std::uint64_t rounds = gpufs::test::scaled(20'000, 1'000), writers = 2;
  scratch_folder folder;
  many_buffers memory;
  write_back writes{memory.region.writes, nullptr};
  file_registry files{memory.region, {}, &writes};
  auto const dropped = files.open(folder / "dropped", O_RDWR | O_CREAT, 0644);
  auto const kept = files.open(folder / "kept", O_RDWR | O_CREAT, 0644);
  std::atomic<std::uint64_t> ended{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      while (ended.load() < writers) static_cast<void>(files.discard(dropped));
    });
  for (std::uint64_t t = 0; t < writers; ++t)
    threads.emplace_back([&, t] {
      for (std::uint64_t i = 0; i < rounds; ++i) {
        memory.dirty(t, memory.version(dropped), t);
        static_cast<void>(writes.flush(nullptr));
        memory.dirty(t, memory.version(kept), i * writers + t);
        static_cast<void>(writes.flush(nullptr));
      }
      ++ended;
    });
  for (auto& t : threads) t.join();
  CHECK(files.sync(kept) == 0);
  CHECK(dirty_bytes(folder / "kept") == rounds * writers);
  CHECK(files.close(kept) == 0);
  CHECK(files.close(dropped) == 0);
}

TEST_CASE("write back: stat knows the size while pages are written, cleaned and written again") {
  scratch_folder folder;
  many_buffers memory;
  write_back writes{memory.region.writes, nullptr};
  file_registry files{memory.region, {}, &writes};
  auto const fd = files.open(folder / "file", O_RDWR | O_CREAT, 0644);
  auto const version = memory.version(fd);
  std::atomic<bool> over{false};
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < 2; ++t)
    threads.emplace_back([&, t] {
      while (!over.load()) {
        for (std::uint64_t i = t; i < 64; i += 2) {
          memory.mark(i, version);
          memory.dirty(i, version, i);
        }
        static_cast<void>(writes.flush(nullptr));
      }
    });
  int unknown = 0;
  for (unsigned i = 0; i < gpufs::test::scaled(20'000, 1'000); ++i) {
    rpc::file_status status{};
    unknown += files.stat(fd, status) == 0 ? 0 : 1;
  }
  over = true;
  for (auto& t : threads) t.join();
  CHECK(unknown == 0);
  CHECK(files.close(fd) == 0);
}
