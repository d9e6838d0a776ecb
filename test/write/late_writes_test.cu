// Pages that the host writes late: what readers see then, and who waits meanwhile.
#include <gpufs/gpufs.hpp>

#include <test/support/faults.hpp>
#include <test/support/file_ops.hpp>
#include <test/support/files.hpp>
#include <test/support/settings.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>

using namespace gpufs;
using namespace gpufs::test;
using testing::fault_action;

namespace {

constexpr std::uint64_t page = 4096;

std::vector<std::byte> read_in_kernel(filesystem& fs, int fd, std::uint64_t offset,
                                      std::uint64_t bytes) {
  op_batch b;
  auto const r = b.read(0, fd, offset, bytes);
  b.run(fs.ref(), 1, 64);
  auto found = b.bytes(r);
  found.resize(std::uint64_t(std::max<std::int64_t>(b.result(r), 0)));
  return found;
}

/// A file of one page, and no room for writes while `is_full`.
struct full_disk {
  full_disk() {
    faults->on_write = [this](auto, auto) {
      return is_full ? fault_action::fail(ENOSPC) : fault_action::pass();
    };
  }

  scratch_folder const folder;
  std::string const path = make_file(folder, "file", page, 1);
  std::atomic<bool> is_full{true};
  std::shared_ptr<scripted_faults> const faults = std::make_shared<scripted_faults>();
  testing::filesystem fs{small_config(page, 16), faults};
};

}  // namespace

TEST_CASE("late writes: bytes of O_GWRONCE that are written after the close are seen by an open") {
  full_disk disk;
  auto const& path = disk.path;
  auto& fs = disk.fs;
  int const fd = fs.open(path, O_RDWR);
  auto const old = read_in_kernel(fs, fd, 0, page);
  int const once = fs.open(path, O_WRONLY | O_GWRONCE);
  auto const bytes = some_bytes(7, 0, page + 10);
  {
    op_batch b;
    auto const written = b.write(0, once, 0, bytes);
    auto const closed = b.close(0, once);
    b.run(fs.ref(), 1, 64);
    CHECK(b.result(written) == std::int64_t(bytes.size()));
    CHECK(b.result(closed) == -ENOSPC);
  }
  CHECK(read_in_kernel(fs, fd, 0, page) == old);
  disk.is_full = false;
  CHECK(fs.sync(fd) == 0);
  int const again = fs.open(path, O_RDONLY);
  CHECK(read_in_kernel(fs, again, 0, 2 * page) == bytes);
  CHECK(read_in_kernel(fs, fd, 0, 2 * page) == bytes);
}

TEST_CASE("late writes: an error that O_GWRONCE has met is shown to a later descriptor, too") {
  full_disk disk;
  auto const& path = disk.path;
  auto& fs = disk.fs;
  auto const write = [&](int fd) {
    op_batch b;
    auto const written = b.write(0, fd, 0, some_bytes(7, 0, 10));
    b.run(fs.ref(), 1, 64);
    return b.result(written);
  };
  int const once = fs.open(path, O_WRONLY | O_GWRONCE);
  wait_until([&] { return write(once) == -ENOSPC; }, "a write that has failed");
  int const other = fs.open(path, O_RDWR);
  CHECK(write(other) == -ENOSPC);
  disk.is_full = false;
  CHECK(fs.sync(other) == -ENOSPC);  // told once
  CHECK(write(other) == 10);
  CHECK(write(once) == 10);
  CHECK(fs.sync(once) == 0);
}

TEST_CASE("late writes: one thread in a slow sync holds up no pages of other files") {
  scratch_folder const folder;
  constexpr std::uint64_t pages = 200;
  std::atomic<std::uint64_t> written{0};
  std::atomic<bool> has_ended{false};
  auto const faults = std::make_shared<scripted_faults>();
  faults->on_write = [&](auto, auto length) {
    written += length;
    return fault_action::pass();
  };
  faults->on_sync = [&] {
    while (written < pages * page && !has_ended) std::this_thread::yield();
    return fault_action::pass();
  };
  auto c = small_config(page, 64);
  c.host_threads = 1;
  c.write_memory = 16 * page;
  testing::filesystem fs(c, faults);
  int const synced = fs.open(folder / "synced", O_RDWR | O_CREAT);
  int const other = fs.open(folder / "other", O_RDWR | O_CREAT);
  op_batch b;
  b.write(0, synced, 0, some_bytes(1, 0, 100));
  auto const sync = b.sync(0, synced);
  auto const write = b.write(1, other, 0, some_bytes(1, 0, (pages + 16) * page));
  b.run(fs.ref(), 2, 64);
  has_ended = true;
  CHECK(b.result(sync) == 0);
  CHECK(b.result(write) == std::int64_t((pages + 16) * page));
}

TEST_CASE("late writes: fs.read gives a file that is not written no new size before an open") {
  scratch_folder const folder;
  auto const path = make_file(folder, "file", 100, 1);
  let_stamps_age(path);
  filesystem fs(small_config(page, 16));
  int const fd = fs.open(path, O_RDONLY);
  CHECK(read_in_kernel(fs, fd, 0, page).size() == 100);
  write_range(path, 1, 100, 9900);
  std::vector<std::byte> host(200);
  CHECK(fs.read(fd, host.data(), host.size(), 0) == 200);
  for (std::uint64_t const at : {0, 50, 200, 5000})
    CHECK(read_in_kernel(fs, fd, at, 100).size() == (at >= 100 ? 0 : 100 - at));
  CHECK(fs.open(path, O_RDONLY) == fd);
  CHECK(read_in_kernel(fs, fd, 0, 20'000).size() == 10'000);
}

TEST_CASE("late writes: fs.read of far more than a file has ends with the file") {
  scratch_folder const folder;
  filesystem fs(small_config(page, 16));
  int const fd = fs.open(make_file(folder, "file", 3 * page), O_RDONLY);
  std::vector<std::byte> found(3 * page);
  CHECK(fs.read(fd, found.data(), 1ull << 60, 0) == std::int64_t(found.size()));
}
