// Opening for writing: which flags do what, and what O_TRUNC and O_EXCL do while a file is open;
// gunlink.
#include <gpufs/gpufs.hpp>

#include <test/support/device_buffers.hpp>
#include <test/support/faults.hpp>
#include <test/support/file_ops.hpp>
#include <test/support/files.hpp>
#include <test/support/leased_file.hpp>
#include <test/support/opens.hpp>
#include <test/support/settings.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
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

/// Every block appends a record as often as `rounds` says, through an open of its own each time.
__global__ void open_append_close(fs_ref fs, char const* path, std::byte const* records,
                                  std::uint64_t bytes, std::uint32_t rounds, std::int64_t* errors) {
  auto const block = cg::this_thread_block();
  io_context io(fs, block);
  for (std::uint32_t i = 0; i < rounds; ++i) {
    int const fd = gopen(io, path, O_WRONLY | O_APPEND);
    std::int64_t result = fd;
    if (fd > 0) {
      result = gwrite(io, fd, records + blockIdx.x * bytes, bytes, 0);
      int const closed = gclose(io, fd);
      if (closed != 0) result = closed;
    }
    if (threadIdx.x == 0 && result != std::int64_t(bytes)) ++errors[blockIdx.x];
  }
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

/// What a reader sees before and after another block has opened the file and written to it.
struct seen_by_reader {
  std::int64_t read_before, read_after, read_behind, size_after;
  std::byte before[4], after[4], behind[4];
  std::byte element_before, element_after, other_view, pointer;
};

/// Reads what writer_opens() writes, in the same kernel, with everything that it had before.
template <class Group>
__device__ void reader(io_context<Group>& io, char const* path, std::uint32_t* flags,
                       seen_by_reader* seen, bool leads) {
  int const fd = gopen(io, path, O_RDONLY);
  ssize_t const before = gread(io, fd, seen->before, 4, 0);
  array<std::byte const> const view(io, fd);
  array<std::byte const> const other(io, fd);
  held_ptr<std::byte const> const pointer = other.pointer(1);
  std::byte const element = view[0];
  if (leads) {
    atomic_ref<std::uint32_t>(flags[0]).fetch_add(1, memory_order_release);
    wait_for(flags[1], 1);
  }
  io.group().sync();
  ssize_t const after = gread(io, fd, seen->after, 4, 0);
  ssize_t const behind = gread(io, fd, seen->behind, 4, 4096);
  file_status status{};
  static_cast<void>(gfstat(io, fd, &status));
  view.release();
  std::byte const now = view[0];
  std::byte const others = other[0];
  std::byte const pointed = *pointer;
  if (leads) {
    seen->read_before = before;
    seen->read_after = after;
    seen->read_behind = behind;
    seen->size_after = static_cast<std::int64_t>(status.size);
    seen->element_before = element;
    seen->element_after = now;
    seen->other_view = others;
    seen->pointer = pointed;
  }
  io.group().sync();
  gclose(io, fd);
}

/// Block 0 opens the file for writing and writes, once the readers have read: block 1, and the
/// tiles of block 2.
__global__ void writer_opens(fs_ref fs, char const* path, std::byte const* piece,
                             std::uint32_t* flags, std::int64_t* written, seen_by_reader* seen) {
  auto const block = cg::this_thread_block();
  auto const tile = cg::tiled_partition<32>(block);
  if (blockIdx.x == 1) {
    io_context io(fs, block);
    reader(io, path, flags, seen, threadIdx.x == 0);
  } else if (blockIdx.x == 2) {
    io_context io(fs, tile);
    reader(io, path, flags, seen + 1 + tile.meta_group_rank(), tile.thread_rank() == 0);
  } else {
    io_context io(fs, block);
    if (threadIdx.x == 0) wait_for(flags[0], 1 + blockDim.x / 32);
    block.sync();
    int const fd = gopen(io, path, O_RDWR);
    ssize_t const first = gwrite(io, fd, piece, 4, 0);
    ssize_t const behind = gwrite(io, fd, piece, 4, 4096);
    if (threadIdx.x == 0) {
      written[0] = first;
      written[1] = behind;
      atomic_ref<std::uint32_t>(flags[1]).store(1, memory_order_release);
    }
    gclose(io, fd);
  }
}

__global__ void write_from_nothing(fs_ref fs, int fd, std::int64_t* results) {
  auto const block = cg::this_thread_block();
  io_context io(fs, block);
  ssize_t const some = gwrite(io, fd, nullptr, 10, 0);
  ssize_t const none = gwrite(io, fd, nullptr, 0, 0);
  if (threadIdx.x == 0) {
    results[0] = some;
    results[1] = none;
  }
}

}  // namespace

TEST_CASE("gwrite of a null buffer gives -EFAULT and changes nothing") {
  scratch_folder folder;
  auto const path = make_file(folder, "file", 104);
  auto const before = whole(path);
  filesystem fs(small_config(4096, 8));
  int const fd = fs.open(path, O_RDWR);
  auto const results = zeroed<std::int64_t>(2);
  launch(write_from_nothing, 1, 64, fs.ref(), fd, results.data());
  CHECK(result_in(results) == std::vector<std::int64_t>{-EFAULT, 0});
  CHECK(fs.close(fd) == 0);
  CHECK(whole(path) == before);
}

TEST_CASE("O_APPEND: a record that ends beyond 2^48 gives -EFBIG, one that ends there fits") {
  constexpr std::int64_t most = std::int64_t(1) << 48;
  scratch_folder folder;
  auto const path = make_file(folder, "file", 10);
  auto const gate = std::make_shared<testing::gate>();
  auto const faults = std::make_shared<scripted_faults>();
  faults->on_write = [gate](auto, auto) { return testing::fault_action::hold(gate); };
  testing::filesystem fs(small_config(4096, 8), faults);
  int const writes = fs.open(path, O_RDWR);
  int const appends = fs.open(path, O_RDWR | O_APPEND);
  // The records lie in two pages: a page whose write-back is held takes no further bytes.
  constexpr std::int64_t page = 4096;
  auto const bytes = some_bytes(3, 0, page + 4);
  std::vector const start(bytes.begin(), bytes.begin() + 4);
  std::vector const last(bytes.begin(), bytes.begin() + page);
  op_batch batch;
  batch.write(0, writes, most - page - 4, start);
  batch.write(0, appends, 0, bytes);
  batch.write(0, appends, 0, last);
  batch.write(0, appends, 0, start);
  batch.size_of(0, appends);
  batch.run(fs.ref(), 1, 64);
  std::vector<std::int64_t> results;
  for (std::size_t i = 0; i < batch.size(); ++i) results.push_back(batch.result(i));
  CHECK(results == std::vector<std::int64_t>{4, -EFBIG, page, -EFBIG, most});
  gate->release();
  static_cast<void>(fs.sync(writes));  // the file system may have a lower limit
  fs.discard(writes);
}

TEST_CASE("a file that a block opens for writing: contexts that have read it see the gwrites") {
  constexpr unsigned threads = 64;
  constexpr unsigned readers = 1 + threads / 32;
  scratch_folder folder;
  auto const path = make_file(folder, "file", 104);
  let_stamps_age(path);
  auto const old = whole(path);
  auto const piece = some_bytes(8, 0, 4);
  REQUIRE(!std::equal(piece.begin(), piece.end(), old.begin()));
  device_paths const name({path});
  buffer<std::byte> on_device(piece.size());
  on_device.copy_from_host(piece.data(), piece.size());
  filesystem fs(small_config(4096, 16));
  auto const flags = zeroed<std::uint32_t>(2);
  auto const written = zeroed<std::int64_t>(2);
  auto const seen = zeroed<seen_by_reader>(readers);
  launch(writer_opens, 3, threads, fs.ref(), name.text(),
         static_cast<std::byte const*>(on_device.data()), flags.data(), written.data(),
         seen.data());
  this_thread_stream().synchronize();
  CHECK(contents(written) == std::vector<std::int64_t>{4, 4});
  for (seen_by_reader const& s : contents(seen)) {
    CHECK(s.read_before == 4);
    CHECK(std::equal(s.before, s.before + 4, old.begin()));
    CHECK(s.element_before == old[0]);
    CHECK(s.read_after == 4);
    CHECK(std::equal(s.after, s.after + 4, piece.begin()));
    CHECK(s.read_behind == 4);
    CHECK(std::equal(s.behind, s.behind + 4, piece.begin()));
    CHECK(s.size_after == 4100);
    CHECK(s.element_after == piece[0]);
    CHECK(s.other_view == piece[0]);
    CHECK(s.pointer == piece[1]);
  }
}

TEST_CASE("O_APPEND: no record is lost if opens and closes of several blocks meet") {
  constexpr std::uint64_t bytes = 64;
  scratch_folder folder;
  for (unsigned const blocks : {2u, 3u}) {
    CAPTURE(blocks);
    auto const path = make_file(folder, "file" + std::to_string(blocks), 0);
    auto const rounds = scaled(2000, 200);
    std::vector<std::byte> records;
    for (unsigned b = 0; b < blocks; ++b) records.insert(records.end(), bytes, std::byte(b + 1));
    auto const on_device = filled(records);
    device_paths const name({path});
    filesystem fs(small_config(4096, 32));
    auto const errors = zeroed<std::int64_t>(blocks);
    launch(open_append_close, blocks, 32, fs.ref(), name.text(), on_device.data(), bytes, rounds,
           errors.data());
    this_thread_stream().synchronize();
    CHECK(contents(errors) == std::vector<std::int64_t>(blocks, 0));
    auto const got = whole(path);
    REQUIRE(got.size() == blocks * rounds * bytes);
    std::vector<std::uint64_t> found(256);
    for (std::uint64_t at = 0; at < got.size(); at += bytes) {
      auto const first = got.begin() + std::ptrdiff_t(at);
      CHECK(std::all_of(first, first + bytes, [&](std::byte b) { return b == *first; }));
      ++found[std::size_t(*first)];
    }
    for (unsigned b = 1; b <= blocks; ++b) CHECK(found[b] == rounds);
  }
}

TEST_CASE("fs.read of a descriptor that is open for writing alone gives -EBADF") {
  scratch_folder folder;
  auto const path = make_file(folder, "file", 100);
  filesystem fs(small_config(4096, 32));
  std::byte byte{};
  for (int const flags : {O_WRONLY, O_WRONLY | O_APPEND, O_GWRONCE}) {
    int const fd = fs.open(path, flags);
    REQUIRE(fd > 0);
    CHECK(fs.read(fd, &byte, 1, 0) == -EBADF);
    CHECK(fs.close(fd) == 0);
  }
}

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
  CHECK(open_in_kernel(fs, folder.path(), O_RDWR | O_CREAT | O_EXCL) == -EEXIST);
  CHECK(open_in_kernel(fs, folder.path(), O_RDWR | O_CREAT) == -EISDIR);
  auto const secret = folder / "secret";
  int const other = fs.open(secret, O_WRONLY | O_CREAT, 0600);
  CHECK(other > 0);
  struct ::stat s {};
  REQUIRE(::stat(secret.c_str(), &s) == 0);
  CHECK((s.st_mode & 0777) == 0600);
}

TEST_CASE("an open waits for the holder of a lease, for rpc_timeout in a kernel") {
  for (bool const in_kernel : {false, true}) {
    CAPTURE(in_kernel);
    leased_file const file(3000);
    if (!file.is_leased()) return;
    filesystem fs(small_config(512, 8));
    std::jthread const holder([&] {
      wait_until([&] { return file.is_wanted(); }, "the open");
      file.let_go();
    });
    int const fd = in_kernel ? open_in_kernel(fs, file.path(), O_RDONLY | O_NONBLOCK)
                             : fs.open(file.path(), O_RDWR);
    CHECK(fd > 0);
    CHECK(fs.close(fd) == 0);
  }
  leased_file const file(3000);
  if (!file.is_leased()) return;
  auto c = small_config(512, 8);
  c.rpc_timeout_ms = 300;
  filesystem fs(c);
  CHECK(open_in_kernel(fs, file.path()) == -ETIMEDOUT);
  file.let_go();
  CHECK(open_patiently(fs, file.path()) > 0);
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

TEST_CASE("fs.write: a descriptor with O_APPEND gives -EOPNOTSUPP, and nothing is written") {
  scratch_folder folder;
  auto const path = make_file(folder, "file", 10);
  auto const before = whole(path);
  filesystem fs(small_config(4096, 8));
  int const appends = fs.open(path, O_WRONLY | O_APPEND);
  CHECK(fs.write(appends, "host", 4, 0) == -EOPNOTSUPP);
  CHECK(fs.close(appends) == 0);
  CHECK(fs.write(appends, "host", 4, 0) == -EBADF);
  CHECK(whole(path) == before);
}
