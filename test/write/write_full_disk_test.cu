// A file system that is really full, a small tmpfs. The error is reported once. The pages stay
// dirty and are written when there is room.
#include <gpufs/gpufs.hpp>

#include <test/support/cache_state.hpp>
#include <test/support/child.hpp>
#include <test/support/file_ops.hpp>
#include <test/support/files.hpp>
#include <test/support/settings.hpp>

#include <doctest/doctest.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

using namespace gpufs;
using namespace gpufs::test;

namespace {

constexpr std::uint64_t page = 4096;
constexpr std::uint64_t disk_bytes = 1 << 20;
constexpr std::uint64_t room =
    16 * page;  // that the filler leaves, less what the file system takes for itself
constexpr std::uint64_t written = 40 * page;  // by one gwrite

struct full_disk {
  std::string file = given_path() + "/file", filler = given_path() + "/filler";
  filesystem fs{small_config(page, 128)};
  int fd = 0;

  full_disk() {
    write_range(filler, 9, 0, disk_bytes - room);
    fd = fs.open(file, O_RDWR | O_CREAT);
    REQUIRE(fd > 0);
  }
  std::int64_t write(std::uint64_t offset, std::vector<std::byte> const& bytes) {
    op_batch batch;
    batch.write(0, fd, std::int64_t(offset), bytes);
    batch.run(fs.ref(), 1, 64);
    return batch.result(0);
  }
  std::int64_t sync() {
    op_batch batch;
    batch.sync(0, fd);
    batch.run(fs.ref(), 1, 64);
    return batch.result(0);
  }
  std::vector<std::byte> read() {
    op_batch batch;
    auto const op = batch.read(0, fd, 0, 2 * written);
    batch.run(fs.ref(), 1, 64);
    return batch.bytes(op);
  }
  void make_room() { set_size(filler, 0); }
};

/// Runs a part on a small file system of its own, where that is allowed.
void run_part(char const* part) {
  scratch_folder folder;
  child other(part, folder.path(), {.tmpfs_bytes = disk_bytes});
  if (!other.refused().empty()) {
    std::printf("skipped, needs a file system of its own: %s\n", other.refused().c_str());
    return;
  }
  CHECK(other.succeeds());
}

}  // namespace

TEST_CASE("child: full, then room") {
  if (!is_part("full, then room")) return;
  full_disk disk;
  auto expected = some_bytes(1, 0, written);
  CHECK(disk.write(0, expected) == std::int64_t(written));
  CHECK(disk.sync() == -ENOSPC);
  auto const lost = disk.fs.unwritten().size();
  CHECK(lost >= (written - room) / page);
  CHECK(lost < written / page);  // some of it fitted
  CHECK(disk.read() == expected);

  // It has been reported: the next gwrite, to a page that has a buffer, is taken; it fails in its
  // turn, which the one after is told.
  auto const more = some_bytes(2, 0, 100);
  CHECK(disk.write(written - page + 7, more) == 100);
  std::copy(more.begin(), more.end(), expected.end() - std::ptrdiff_t(page - 7));
  CHECK(disk.fs.sync() == -EIO);
  CHECK(disk.write(0, more) == -ENOSPC);
  CHECK(disk.write(0, more) == -ENOSPC);  // until somebody is told who asked
  CHECK(disk.fs.sync(disk.fd) == -ENOSPC);
  CHECK(disk.read() == expected);

  disk.make_room();
  CHECK(disk.sync() == 0);
  CHECK(disk.fs.unwritten().empty());
  CHECK(pread_bytes(disk.file, 0, ~0ull) == expected);
  CHECK(disk.write(written, more) == 100);
  CHECK(disk.fs.close(disk.fd) == 0);
  expected.insert(expected.end(), more.begin(), more.end());
  CHECK(pread_bytes(disk.file, 0, ~0ull) == expected);
  CHECK(inspect(disk.fs.ref()).problems == "");
}

TEST_CASE("child: full, then discarded") {
  if (!is_part("full, then discarded")) return;
  full_disk disk;
  auto const bytes = some_bytes(1, 0, written);
  CHECK(disk.write(0, bytes) == std::int64_t(written));
  CHECK(disk.fs.sync(disk.fd) == -ENOSPC);
  CHECK(!disk.fs.unwritten().empty());
  CHECK(disk.fs.discard(disk.fd) == 0);
  CHECK(disk.fs.unwritten().empty());
  CHECK(disk.sync() == 0);
  auto const kept = pread_bytes(disk.file, 0, ~0ull);
  CHECK(kept != bytes);
  CHECK(disk.read() == kept);  // what did not fit is gone for kernels, too
  disk.make_room();
  CHECK(disk.write(0, bytes) == std::int64_t(written));  // all buffers are free again
  CHECK(disk.fs.close(disk.fd) == 0);
  CHECK(pread_bytes(disk.file, 0, ~0ull) == bytes);
}

TEST_CASE(
    "a full file system: gfsync, the next gwrite and the host are told; what did not fit stays and "
    "is written when there is "
    "room") {
  run_part("full, then room");
}

TEST_CASE("a full file system: fs.discard drops what did not fit, and nothing else") {
  run_part("full, then discarded");
}
