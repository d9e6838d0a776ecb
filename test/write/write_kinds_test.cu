// Descriptors with O_GWRONCE and others of the same file, one after the other, while pages cannot
// be written. A page has a write buffer for each kind.
#include <gpufs/gpufs.hpp>

#include <test/support/faults.hpp>
#include <test/support/file_ops.hpp>
#include <test/support/files.hpp>
#include <test/support/opens.hpp>
#include <test/support/settings.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>

using namespace gpufs;
using namespace gpufs::test;
using testing::fault_action;

namespace {

constexpr std::uint64_t page = 512;
constexpr std::pair<int, int> both_orders[] = {{O_GWRONCE, O_RDWR}, {O_RDWR, O_GWRONCE}};

/// A file on a disk that is full until the test says otherwise.
struct full_disk {
  scratch_folder folder;
  std::string path = make_file(folder, "file", 4 * page);
  std::atomic<bool> full{true};
  testing::filesystem fs{small_config(page, 16), faults()};

  std::shared_ptr<scripted_faults> faults() {
    auto all = std::make_shared<scripted_faults>();
    all->on_write = [this](std::uint64_t, std::uint64_t) {
      return full ? fault_action::fail(ENOSPC) : fault_action::pass();
    };
    return all;
  }
  /// Writes the first bytes of the file by a kernel.
  void write(int fd, std::vector<std::byte> const& bytes) {
    op_batch batch;
    auto const written = batch.write(0, fd, 0, bytes);
    batch.run(fs.ref(), 1, 64);
    CHECK(batch.result(written) == std::int64_t(bytes.size()));
  }
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
      full_disk disk;
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
    full_disk disk;
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
