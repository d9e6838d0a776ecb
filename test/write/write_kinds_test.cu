// Descriptors with O_GWRONCE and others of the same file, one after the other, while pages cannot
// be written. A page has a write buffer for each kind.
#include <gpufs/gpufs.hpp>

#include <test/support/files.hpp>
#include <test/support/opens.hpp>
#include <test/write/full_disk.hpp>

#include <doctest/doctest.h>

#include <cerrno>
#include <cstddef>
#include <utility>
#include <vector>

#include <fcntl.h>

using namespace gpufs;
using namespace gpufs::test;

namespace {

constexpr std::pair<int, int> both_orders[] = {{O_GWRONCE, O_RDWR}, {O_RDWR, O_GWRONCE}};

struct disk_with_file : full_disk {
  disk_with_file() { make_file(folder, "file", 4 * page); }

  /// Leaves `bytes` dirty behind a descriptor that is closed.
  void leave(int flags, std::vector<std::byte> const& bytes) {
    int const fd = fs.open(path, flags);
    REQUIRE(fd > 0);
    write(fd, bytes);
    CHECK(fs.close(fd) == -ENOSPC);
  }
};

}  // namespace

TEST_CASE("pages that one kind of descriptor left dirty come before those of the other kind") {
  auto const older = some_bytes(1, 0, 20), newer = some_bytes(2, 0, 20);
  for (auto const& [first, second] : both_orders) {
    for (bool const in_kernel : {false, true}) {
      CAPTURE(second);
      CAPTURE(in_kernel);
      disk_with_file disk;
      disk.leave(first, older);
      disk.full = false;
      int const fd =
          in_kernel ? open_in_kernel(disk.fs, disk.path, second) : disk.fs.open(disk.path, second);
      REQUIRE(fd > 0);
      disk.write(fd, newer);
      wait_until([&] { return pread_bytes(disk.path, 0, 20) == newer; }, "the newer bytes");
      CHECK(disk.fs.sync(fd) == 0);
      CHECK(pread_bytes(disk.path, 0, 20) == newer);
      CHECK(disk.fs.unwritten().empty());
      CHECK(disk.fs.close(fd) == 0);
      CHECK(pread_bytes(disk.path, 0, 20) == newer);
    }
  }
}

TEST_CASE("while such pages cannot be written, an open of the other kind returns the error") {
  auto const older = some_bytes(1, 0, 20), newer = some_bytes(2, 0, 20);
  for (auto const& [first, second] : both_orders) {
    CAPTURE(second);
    disk_with_file disk;
    auto const before = pread_bytes(disk.path, 0, 20);
    disk.leave(first, older);
    CHECK(disk.fs.open(disk.path, second) == -ENOSPC);
    CHECK(open_in_kernel(disk.fs, disk.path, second) == -ENOSPC);
    CHECK(disk.fs.unwritten().size() == 1);
    // Readers are not concerned, and the same kind has the means to drop the pages.
    int const reads = disk.fs.open(disk.path, O_RDONLY), same = disk.fs.open(disk.path, first);
    CHECK(reads > 0);
    REQUIRE(same > 0);
    CHECK(disk.fs.discard(same) == 0);
    CHECK(disk.fs.close(same) == 0);
    CHECK(disk.fs.close(reads) == 0);
    int const fd = disk.fs.open(disk.path, second);
    REQUIRE(fd > 0);
    disk.write(fd, newer);
    CHECK(pread_bytes(disk.path, 0, 20) == before);
    disk.full = false;
    CHECK(disk.fs.sync(fd) <= 0);  // of a try in the background, if there was one
    CHECK(disk.fs.close(fd) == 0);
    CHECK(pread_bytes(disk.path, 0, 20) == newer);
  }
}
