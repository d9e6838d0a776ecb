// Write-back in the background: the order in which pages are written, and when they go on to the
// disk.
#include <host-daemon/backend/host_storage.hpp>
#include <host-daemon/files/file_registry.hpp>
#include <host-daemon/write_back/write_back.hpp>

#include <test/daemon/forwarding_file.hpp>
#include <test/daemon/harness.hpp>
#include <test/daemon/many_buffers.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>

using gpufs::daemon::file_registry;
using gpufs::daemon::write_back;
using gpufs::test::many_buffers;
using gpufs::test::scratch_folder;
using gpufs::test::wait_until;

namespace {

constexpr std::uint64_t page_bytes = 1 << many_buffers::page_shift;

// Ordinary files. `begin` is called instead of begin_sync().
struct watched_storage final : gpufs::daemon::storage_backend {
  struct file final : gpufs::test::forwarding_file {
    watched_storage const& storage;
    file(std::shared_ptr<stored_file const> f, watched_storage const& s)
        : forwarding_file{std::move(f)}, storage{s} {}
    int begin_sync(std::uint64_t offset, std::uint64_t length) const noexcept override {
      return storage.begin(offset, length);
    }
  };
  gpufs::daemon::host_storage below;
  std::function<int(std::uint64_t offset, std::uint64_t length)> begin;

  gpufs::daemon::opened_file open(std::string const& path, int flags, unsigned mode) override {
    auto const opened = below.open(path, flags, mode);
    if (opened.error != 0) return opened;
    return {std::make_shared<file const>(opened.file, *this), 0, opened.status};
  }
  int status(std::string const& path, struct ::stat& out) noexcept override {
    return below.status(path, out);
  }
  int unlink(std::string const& path) noexcept override { return below.unlink(path); }
};

bool all_clean(many_buffers const& memory, std::uint64_t count) {
  for (std::uint64_t i = 0; i < count; ++i)  // write_back::unwritten() would lock buffers
    if (memory.marked(i)) return false;
  return true;
}

// Has `threads` write `pages` pages in full, which `files` files share in turn. Returns how often
// they asked for bytes to go to the disk. `begin` is what asking does besides.
struct writing {
  unsigned threads = 2;
  std::uint64_t write_behind = 0;
  std::uint64_t pages = 2000;
  std::uint64_t files = 1;
};
unsigned begins(writing const& w, std::function<void(many_buffers const&)> const& begin = {}) {
  scratch_folder folder;
  many_buffers memory;
  auto const storage = std::make_shared<watched_storage>();
  std::atomic<unsigned> count{0};
  storage->begin = [&](std::uint64_t, std::uint64_t) {
    count.fetch_add(1);
    if (begin) begin(memory);
    return 0;
  };
  write_back writes{memory.region.writes, nullptr, nullptr, w.write_behind};
  file_registry files{memory.region, {.storage = storage}, &writes};
  std::vector<std::int32_t> opened;
  for (std::uint64_t f = 0; f < w.files; ++f) {
    opened.push_back(files.open(folder / std::to_string(f), O_RDWR | O_CREAT, 0644));
    REQUIRE(opened.back() > 0);
  }
  for (std::uint64_t i = 0; i < w.pages; ++i)
    memory.dirty(i, memory.version(opened[i % w.files]), i / w.files, page_bytes);
  if (w.threads == 0) {
    CHECK(writes.flush(nullptr) == 0);
  } else {
    writes.start(w.threads);
    wait_until([&] { return all_clean(memory, w.pages); }, "written back");
    writes.stop();
  }
  auto const result = count.load();
  for (std::uint64_t f = 0; f < w.files; ++f) {
    CHECK(gpufs::test::pread_bytes(folder / std::to_string(f), 0, ~0ull) ==
          std::vector<std::byte>(w.pages / w.files * page_bytes, std::byte{'x'}));
    CHECK(files.close(opened[f]) == 0);
  }
  return result;
}

}  // namespace

TEST_CASE("background writes: neighbouring pages of many blocks go to the file in long calls") {
  scratch_folder folder;
  many_buffers memory;
  write_back writes{memory.region.writes, nullptr};
  file_registry files{memory.region, {}, &writes};
  auto const fd = files.open(folder / "file", O_RDWR | O_CREAT, 0644);
  // Blocks take 16 pages in turn, each in buffers of its own stretch.
  constexpr std::uint64_t blocks = 32, turns = 4, together = 16, stretch = 1000;
  constexpr auto pages = blocks * turns * together;
  for (std::uint64_t b = 0; b < blocks; ++b)
    for (std::uint64_t k = 0; k < turns * together; ++k)
      memory.dirty(b * stretch + k, memory.version(fd),
                   (k / together * blocks + b) * together + k % together, page_bytes);
  writes.start(1);
  wait_until([&] { return all_clean(memory, blocks * stretch); }, "written back");
  writes.stop();
  CHECK(gpufs::test::pread_bytes(folder / "file", 0, ~0ull) ==
        std::vector<std::byte>(pages * page_bytes, std::byte{'x'}));
  // A call takes 256 pages. The thread may find some pages a search later than the others.
  CHECK(writes.writes(0) >= pages / 256);
  CHECK(writes.writes(0) <= pages / 256 * 2);
  CHECK(files.close(fd) == 0);
}

TEST_CASE("background writes: what was written is sent to the disk, every write_behind bytes") {
  auto const count = begins({.write_behind = 600 * page_bytes});
  CHECK(count >= 1);
  CHECK(count <= 2000 / 600);
  CHECK(begins({.write_behind = 2001 * page_bytes}) == 0);
  CHECK(begins({.write_behind = 0}) == 0);
  // Nobody who waits for pages to be written waits for the disk.
  CHECK(begins({.threads = 0, .write_behind = page_bytes}) == 0);
}

TEST_CASE("background writes: a full queue of the disk holds up one thread, and no page") {
  for (std::uint64_t const files : {1, 3}) {
    CAPTURE(files);
    writing const w{.write_behind = 16 * page_bytes, .pages = 3000, .files = files};
    // The disk takes nothing until all pages are written.
    auto const count = begins(w, [](many_buffers const& memory) {
      wait_until([&] { return all_clean(memory, 3000); }, "written by the other thread");
    });
    CHECK(count >= 1);
  }
  // A thread that writes alone would hold them up.
  CHECK(begins({.threads = 1, .write_behind = 16 * page_bytes}) == 0);
}

TEST_CASE("background writes: pages behind those of a full search are written, too") {
  // A thread takes the 4096 that it finds first.
  CHECK(begins({.threads = 1, .pages = 20'000}) == 0);
  CHECK(begins({.threads = 3, .pages = 20'001, .files = 3}) == 0);
}

TEST_CASE("background writes: calls go on where the last one stopped, up to the end of the file") {
  scratch_folder folder;
  many_buffers memory;
  auto const storage = std::make_shared<watched_storage>();
  std::uint64_t expected = 0;
  std::atomic<unsigned> count{0};
  // One thread at a time calls this, and the next one sees what it has stored.
  storage->begin = [&](std::uint64_t offset, std::uint64_t length) {
    CHECK((offset == expected || offset == 0));
    CHECK(length != 0);
    CHECK(length <= 64 << 20);
    expected = offset + length;
    count.fetch_add(1);
    return 0;
  };
  write_back writes{memory.region.writes, nullptr, nullptr, page_bytes};
  file_registry files{memory.region, {.storage = storage}, &writes};
  auto const fd = files.open(folder / "file", O_RDWR | O_CREAT, 0644);
  writes.start(2);
  // Each page lies 100 MB behind the last one.
  for (std::uint64_t round = 0; round < 20; ++round) {
    memory.dirty(round, memory.version(fd), round * 200'000, page_bytes);
    wait_until([&] { return all_clean(memory, round + 1); }, "written back");
  }
  wait_until([&] { return count.load() >= 1; }, "sent to the disk");
  writes.stop();
  CHECK(files.close(fd) == 0);
}

TEST_CASE("background writes: an error of sending bytes to the disk shows at the next sync") {
  for (int const error : {EIO, ENOSPC, EDQUOT, EINVAL}) {
    CAPTURE(error);
    scratch_folder folder;
    many_buffers memory;
    auto const storage = std::make_shared<watched_storage>();
    std::atomic<unsigned> count{0};
    storage->begin = [&](std::uint64_t, std::uint64_t) {
      count.fetch_add(1);
      return -error;
    };
    write_back writes{memory.region.writes, nullptr, nullptr, page_bytes};
    file_registry files{memory.region, {.storage = storage}, &writes};
    auto const fd = files.open(folder / "file", O_RDWR | O_CREAT, 0644);
    writes.start(2);
    memory.dirty(0, memory.version(fd), 0, page_bytes);
    wait_until([&] { return count.load() != 0; }, "sent to the disk");
    writes.stop();
    // EINVAL: the storage cannot do that.
    CHECK(files.sync(fd) == (error == EINVAL ? 0 : -error));
    static_cast<void>(files.close(fd));
  }
}
