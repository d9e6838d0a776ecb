// Opening for writing: which flags do what, and what O_TRUNC and O_EXCL do while a file is open;
// gunlink.
#include <gpufs/gpufs.hpp>

#include <test/support/device_buffers.hpp>
#include <test/support/file_ops.hpp>
#include <test/support/files.hpp>
#include <test/support/opens.hpp>
#include <test/support/settings.hpp>

#include <doctest/doctest.h>

#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <sys/stat.h>

namespace cg = cooperative_groups;
using namespace gpufs;
using namespace gpufs::test;

namespace {

std::vector<std::byte> whole(std::string const& path) { return pread_bytes(path, 0, ~0ull); }

/// Every block opens the file, writes a piece of its own, closes it.
__global__ void open_write_close(fs_ref fs, char const* path, int flags, std::byte const* piece,
                                 std::uint64_t bytes, std::int64_t* results) {
  auto const block = cg::this_thread_block();
  io_context io(fs, block);
  std::int64_t result = gopen(io, path, flags);
  if (result > 0) {
    int const fd = static_cast<int>(result);
    result = gwrite(io, fd, piece, bytes, std::int64_t(blockIdx.x * bytes));
    int const closed = gclose(io, fd);
    if (closed != 0) result = closed;
  }
  if (threadIdx.x == 0) results[blockIdx.x] = result;
}

__global__ void unlink_all(fs_ref fs, char const* text, std::uint64_t const* offsets,
                           std::uint32_t count, int* results) {
  auto const block = cg::this_thread_block();
  io_context io(fs, block);
  for (std::uint32_t i = 0; i < count; ++i) {
    int const result = gunlink(io, text + offsets[i]);
    if (threadIdx.x == 0) results[i] = result;
  }
}

}  // namespace

TEST_CASE("O_TRUNC: with the host holding the file open, waves of blocks write one file") {
  constexpr unsigned blocks = 40;  // more than are resident at once
  scratch_folder folder;
  auto const path = make_file(folder, "file", 100000);
  auto const piece = some_bytes(4, 0, 700);
  buffer<std::byte> on_device(piece.size());
  on_device.copy_from_host(piece.data(), piece.size());
  device_paths const name({path});
  filesystem fs(small_config(4096, 16));
  int const held = fs.open(path, O_WRONLY | O_CREAT | O_TRUNC);
  CHECK(std::filesystem::file_size(path) == 0);
  auto const results = zeroed<std::int64_t>(blocks);
  launch(open_write_close, blocks, 64, fs.ref(), name.text(), O_WRONLY | O_CREAT | O_TRUNC,
         on_device.data(), std::uint64_t(piece.size()), results.data());
  this_thread_stream().synchronize();
  CHECK(contents(results) == std::vector<std::int64_t>(blocks, std::int64_t(piece.size())));
  CHECK(fs.close(held) == 0);
  auto const got = whole(path);
  REQUIRE(got.size() == blocks * piece.size());
  for (unsigned b = 0; b < blocks; ++b)
    CHECK(std::equal(piece.begin(), piece.end(), got.begin() + std::ptrdiff_t(b * piece.size())));
  // No descriptor is open any more: the next gopen truncates.
  int const again = fs.open(path, O_RDWR | O_TRUNC);
  CHECK(std::filesystem::file_size(path) == 0);
  CHECK(fs.close(again) == 0);
}

TEST_CASE(
    "O_CREAT, O_EXCL and mode do what open(2) says; O_EXCL passes while the file is open here") {
  scratch_folder folder;
  auto const path = folder / "new";
  filesystem fs(small_config(512, 8));
  CHECK(fs.open(path, O_RDWR) == -ENOENT);
  int const fd = open_in_kernel(fs, path, O_RDWR | O_CREAT | O_EXCL);
  REQUIRE(fd > 0);
  CHECK(open_in_kernel(fs, path, O_RDWR | O_CREAT | O_EXCL) == fd);
  CHECK(fs.close(fd) == 0);
  CHECK(fs.close(fd) == 0);
  CHECK(open_in_kernel(fs, path, O_RDWR | O_CREAT | O_EXCL) == -EEXIST);
  auto const secret = folder / "secret";
  int const other = fs.open(secret, O_WRONLY | O_CREAT, 0600);
  CHECK(other > 0);
  struct ::stat s {};
  REQUIRE(::stat(secret.c_str(), &s) == 0);
  CHECK((s.st_mode & 0777) == 0600);
}

TEST_CASE("gunlink removes names; a file that is open lives on") {
  scratch_folder folder;
  auto const path = make_file(folder, "file", 3000);
  auto const before = whole(path);
  filesystem fs(small_config(512, 8));
  int const fd = fs.open(path, O_RDWR);
  device_paths const names({path, path, folder.path(), folder / std::string(300, 'a')});
  auto const results = zeroed<int>(names.count());
  launch(unlink_all, 1, 64, fs.ref(), names.text(), names.offsets(), names.count(), results.data());
  this_thread_stream().synchronize();
  CHECK(contents(results) == std::vector{0, -ENOENT, -EISDIR, -ENAMETOOLONG});
  CHECK(!std::filesystem::exists(path));
  op_batch batch;
  auto const written = batch.write(0, fd, 10, some_bytes(1, 0, 20));
  auto const read = batch.read(0, fd, 0, 5000);
  auto const synced = batch.sync(0, fd);
  batch.run(fs.ref(), 1, 64);
  CHECK(batch.result(written) == 20);
  CHECK(batch.result(read) == 3000);
  CHECK(batch.result(synced) == 0);
  CHECK(fs.close(fd) == 0);
}

TEST_CASE(
    "close-to-open: what others do to a file between our close and open is noticed after we have "
    "written it, too") {
  constexpr std::uint64_t size = 3 * 4096 + 10;
  scratch_folder folder;
  filesystem fs(small_config(4096, 32));
  auto const path = make_file(folder, "file", size);
  auto const write_through_gpu = [&](std::uint64_t with) {
    int const fd = fs.open(path, O_RDWR);
    op_batch batch;
    batch.write(0, fd, 0, some_bytes(with, 0, size));
    batch.read(0, fd, 0, size);
    batch.run(fs.ref(), 1, 64);
    CHECK(fs.close(fd) == 0);
  };
  auto const read_through_gpu = [&] {
    int const fd = fs.open(path, O_RDONLY);
    op_batch batch;
    auto const read = batch.read(0, fd, 0, 2 * size);
    batch.run(fs.ref(), 1, 64);
    CHECK(fs.close(fd) == 0);
    return batch.bytes(read);
  };
  write_through_gpu(1);
  CHECK(read_through_gpu() == some_bytes(1, 0, size));
  write_range(path, 55, 100, 50);  // at once, with stamps that may be the same
  CHECK(read_through_gpu() == whole(path));
  write_through_gpu(2);
  let_stamps_age(path);
  CHECK(read_through_gpu() == whole(path));
  set_size(path, 777);
  CHECK(read_through_gpu() == whole(path));
  write_through_gpu(3);
  std::filesystem::rename(make_file(folder, "other", 2 * size, 9), path);
  CHECK(read_through_gpu() == whole(path));
}

TEST_CASE(
    "pages stay in the cache for the next open if nobody wrote the file, or while it stays open "
    "for writing") {
  constexpr std::uint64_t size = 3 * 4096 + 10;
  scratch_folder folder;
  filesystem fs(small_config(4096, 32));
  auto const path = make_file(folder, "file", size);
  let_stamps_age(path);
  auto const misses_of_a_read = [&](int flags) {
    int const fd = fs.open(path, flags);
    auto const before = fs.stats();
    op_batch batch;
    auto const read = batch.read(0, fd, 0, 2 * size);
    batch.close(0, fd);
    batch.run(fs.ref(), 1, 64);
    CHECK(batch.bytes(read) == whole(path));
    return (fs.stats() - before).misses;
  };
  CHECK(misses_of_a_read(O_RDWR) > 0);
  CHECK(misses_of_a_read(O_RDWR) == 0);  // open for writing, but never written
  CHECK(misses_of_a_read(O_RDONLY) == 0);
  int const held = fs.open(path, O_RDWR);
  for (std::uint64_t const with : {1, 2}) {
    int const fd = fs.open(path, O_WRONLY);
    op_batch batch;
    batch.write(0, fd, 0, some_bytes(with, 0, size));
    batch.close(0, fd);
    batch.run(fs.ref(), 1, 64);
    CHECK(batch.result(1) == 0);
    CHECK(misses_of_a_read(O_RDONLY) == 0);
  }
  CHECK(fs.close(held) == 0);
}

TEST_CASE(
    "close-to-open: what others write while we have the file open for writing is read after our "
    "last close") {
  constexpr std::uint64_t size = 2 * 4096;
  for (bool const writes_too : {false, true}) {
    for (bool const reader_stays : {false, true}) {
      scratch_folder folder;
      auto const path = make_file(folder, "file", size);
      let_stamps_age(path);
      filesystem fs(small_config(4096, 32));
      int const reader = reader_stays ? fs.open(path, O_RDONLY) : 0;
      int const fd = fs.open(path, O_RDWR);
      op_batch batch;
      batch.read(0, fd, 0, size);  // the pages are cached
      if (writes_too) batch.write(0, fd, 0, some_bytes(3, 0, 100));
      batch.run(fs.ref(), 1, 64);
      CHECK(fs.sync(fd) == 0);
      write_range(path, 77, 4096, 50);
      let_stamps_age(path);
      CHECK(fs.close(fd) == 0);
      let_stamps_age(path);
      for (int const flags : {O_RDONLY, O_RDWR, O_RDONLY}) {
        int const again = fs.open(path, flags);
        op_batch reads;
        auto const read = reads.read(0, again, 0, 2 * size);
        reads.run(fs.ref(), 1, 64);
        CAPTURE(writes_too);
        CAPTURE(reader_stays);
        CHECK(reads.bytes(read) == whole(path));
        CHECK(fs.close(again) == 0);
      }
      if (reader_stays) CHECK(fs.close(reader) == 0);
    }
  }
}

TEST_CASE("close-to-open: two filesystems that wrote one page both read it whole afterwards") {
  scratch_folder folder;
  auto const path = make_file(folder, "file", 4096);
  filesystem first(small_config(4096, 8)), second(small_config(4096, 8));
  filesystem* const both[] = {&first, &second};
  int fds[2];
  auto const on_each = [&](auto&& what) {
    for (int i = 0; i < 2; ++i) what(*both[i], i);
  };
  on_each([&](filesystem& fs, int i) { fds[i] = fs.open(path, O_RDWR); });
  on_each([&](filesystem& fs, int i) {
    op_batch batch;
    batch.write(0, fds[i], 100 * i, some_bytes(std::uint64_t(5 + i), 0, 100));
    batch.run(fs.ref(), 1, 64);
  });
  on_each([&](filesystem& fs, int i) {
    CHECK(fs.close(fds[i]) == 0);
    let_stamps_age(path);
  });
  auto expected = some_bytes(5, 0, 100);
  auto const theirs = some_bytes(6, 0, 100);
  expected.insert(expected.end(), theirs.begin(), theirs.end());
  CHECK(pread_bytes(path, 0, 200) == expected);
  on_each([&](filesystem& fs, int i) {
    int const fd = fs.open(path, O_RDONLY);
    op_batch batch;
    auto const read = batch.read(0, fd, 0, 200);
    batch.run(fs.ref(), 1, 64);
    CAPTURE(i);
    CHECK(batch.bytes(read) == expected);
    CHECK(fs.close(fd) == 0);
  });
}
