// Files that lose their name while pages cannot be written: the pages are dropped once nobody could
// write them any more, and the file's blocks come free.
#include <gpufs/gpufs.hpp>

#include <test/support/device_buffers.hpp>
#include <test/support/file_ops.hpp>
#include <test/support/files.hpp>
#include <test/support/opens.hpp>
#include <test/write/full_disk.hpp>

#include <doctest/doctest.h>

#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <system_error>

#include <fcntl.h>
#include <unistd.h>

namespace cg = cooperative_groups;
using namespace gpufs;
using namespace gpufs::test;

namespace {

__global__ void remove_file(fs_ref fs, char const* path, std::int64_t* result) {
  io_context io(fs, cg::this_thread_block());
  int const removed = gunlink(io, path);
  if (threadIdx.x == 0) *result = removed;
}

struct disk_of_file : full_disk {
  void write(int fd) { full_disk::write(fd, some_bytes(1, 0, 20)); }
  /// Whether this process has a descriptor of the file, which has lost its name.
  [[nodiscard]] bool is_held() const {
    for (auto const& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
      std::error_code gone;
      if (std::filesystem::read_symlink(entry.path(), gone) == path + " (deleted)") return true;
    }
    return false;
  }
  void check_dropped() {
    REQUIRE(fs.unwritten().empty());
    wait_until([&] { return !is_held(); }, "the daemon's threads have let go of the file");
  }
};

}  // namespace

TEST_CASE("the last close of a file without a name drops what it cannot write, and says so") {
  for (int const flags : {O_RDWR, O_GWRONCE}) {
    for (bool const replaced : {false, true}) {
      CAPTURE(flags);
      CAPTURE(replaced);
      disk_of_file disk;
      int const fd = disk.fs.open(disk.path, flags | O_CREAT),
                other = disk.fs.open(disk.path, flags);
      REQUIRE(fd > 0);
      if (replaced)
        std::filesystem::rename(make_file(disk.folder, "new", disk.page), disk.path);
      else
        REQUIRE(::unlink(disk.path.c_str()) == 0);
      disk.write(fd);
      CHECK(disk.fs.close(fd) == 0);
      CHECK(disk.is_held());
      CHECK(disk.fs.close(other) == -ENOSPC);
      disk.check_dropped();
    }
  }
}

TEST_CASE("a file that loses its name behind its last close is dropped then") {
  for (bool const by_gunlink : {true, false}) {
    CAPTURE(by_gunlink);
    disk_of_file disk;
    int const fd = disk.fs.open(disk.path, O_RDWR | O_CREAT);
    disk.write(fd);
    CHECK(disk.fs.close(fd) == -ENOSPC);
    CHECK(disk.fs.sync() == -EIO);
    CHECK(disk.fs.unwritten().size() == 1);  // it has a name: an open of it can write the page
    if (by_gunlink) {
      device_paths const name({disk.path});
      auto const result = zeroed<std::int64_t>(1);
      launch(remove_file, 1, 64, disk.fs.ref(), name.text(), result.data());
      CHECK(result_in(result)[0] == 0);
    } else {
      REQUIRE(::unlink(disk.path.c_str()) == 0);
      CHECK(disk.fs.sync() == 0);
    }
    disk.check_dropped();
  }
}

TEST_CASE("while a file without a name is open for reading, its pages stay") {
  disk_of_file disk;
  int const fd = disk.fs.open(disk.path, O_RDWR | O_CREAT);
  int const reads = disk.fs.open(disk.path, O_RDONLY);
  disk.write(fd);
  REQUIRE(::unlink(disk.path.c_str()) == 0);
  CHECK(disk.fs.close(fd) == -ENOSPC);
  CHECK(disk.fs.unwritten().size() == 1);
  op_batch batch;
  auto const seen = batch.read(0, reads, 0, 20);
  batch.run(disk.fs.ref(), 1, 64);
  CHECK(batch.bytes(seen) == some_bytes(1, 0, 20));
  SUBCASE("with room they are written") {
    disk.full = false;
    CHECK(disk.fs.sync(reads) == 0);
    CHECK(disk.fs.close(reads) == 0);
  }
  SUBCASE("without room they are dropped behind the last close") {
    CHECK(disk.fs.close(reads) == 0);
    CHECK(disk.fs.sync() == 0);
  }
  disk.check_dropped();
}
