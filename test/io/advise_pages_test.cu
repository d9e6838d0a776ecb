// gfadvise and filesystem::advise with willneed and dontneed: which pages come and go, and which
// stay.
#include <gpufs/gpufs.hpp>

#include <test/support/advice.hpp>
#include <test/support/cache_state.hpp>
#include <test/support/device_buffers.hpp>
#include <test/support/faults.hpp>
#include <test/support/file_ops.hpp>
#include <test/support/files.hpp>
#include <test/support/settings.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <memory>
#include <string>

namespace cg = cooperative_groups;
using namespace gpufs;
using namespace gpufs::test;
using testing::fault_action;

namespace {

constexpr std::uint64_t kibi = 1 << 10, mebi = 1 << 20;

// Reads a page, keeps the frame pinned while it advises against it, and looks whether it is there
// still.
__global__ void advise_against_a_pinned_page(fs_ref fs, int fd, std::uint64_t version,
                                             std::uint64_t page, std::uint32_t* there) {
  auto const block = cg::this_thread_block();
  io_context io(fs, block);
  cache::lookup held{};
  if (threadIdx.x < 32) held = cache::find_and_pin(fs.cache, version, page);
  int const result = gfadvise(io, fd, 0, 0, advice::dontneed);
  if (threadIdx.x < 32) {
    cache::lookup const again = cache::find_and_pin(fs.cache, version, page);
    if (threadIdx.x == 0) {
      *there = result == 0 && held.result == cache::lookup_result::hit &&
               again.result == cache::lookup_result::hit && again.frame == held.frame;
      cache::unpin(fs.cache.headers[held.frame]);
      cache::unpin(fs.cache.headers[again.frame]);
    }
  }
}

}  // namespace

TEST_CASE("gfadvise willneed: the range's pages are in the cache when it returns, and no others") {
  scratch_folder folder;
  for (std::uint64_t const page : {std::uint64_t{512}, 4 * kibi, 64 * kibi}) {
    auto const path = make_file(folder, std::to_string(page), 40 * page + 100);
    for (auto const who : {caller_kind::block, caller_kind::tile}) {
      auto c = small_config(page, 64);
      c.staging_size = 8 * mebi;
      filesystem fs(c);
      int const fd = fs.open(path, O_RDONLY);
      CAPTURE(page);
      CAPTURE(int(who));
      CHECK(advise_in_kernel(fs.ref(), fd, std::int64_t(3 * page + 7), std::int64_t(10 * page),
                             advice::willneed, who) == 0);
      CHECK(inspect(fs.ref()).ready == 11);
      CHECK(inspect(fs.ref()).problems == "");
      auto const s = fs.stats();
      CHECK(s.bytes_delivered == 0);
      CHECK(s.host_bytes == 11 * page);
      CHECK(missing(fs, fd, path, 3 * page, 11 * page) == 0);
      CHECK(missing(fs, fd, path, 2 * page, page) == 1);
      CHECK(missing(fs, fd, path, 14 * page, page) == 1);
      CHECK(advise_in_kernel(fs.ref(), fd, std::int64_t(20 * page), 0, advice::willneed, who) == 0);
      CHECK(missing(fs, fd, path, 20 * page, 21 * page) == 0);
      CHECK(advise_in_kernel(fs.ref(), fd, std::int64_t(50 * page), 0, advice::willneed, who) == 0);
    }
  }
}

TEST_CASE(
    "gfadvise willneed: of a range larger than the cache the first pages come, with and without "
    "readahead") {
  scratch_folder folder;
  auto const path = make_file(folder, "file", 200 * 4 * kibi);
  for (auto const prefetch : {std::uint64_t{0}, 60 * kibi, prefetch_automatic}) {
    auto c = small_config(4 * kibi, 32);
    c.prefetch_size = prefetch;
    filesystem fs(c);
    int const fd = fs.open(path, O_RDONLY);
    CAPTURE(prefetch);
    CHECK(advise_in_kernel(fs.ref(), fd, 8 * kibi, 0, advice::willneed) == 0);
    CHECK(fs.stats().misses == 32);
    CHECK(fs.stats().evictions == 0);
    CHECK(missing(fs, fd, path, 8 * kibi, 32 * 4 * kibi) == 0);
  }
}

TEST_CASE("gfadvise willneed: a page that cannot be read is reported") {
  scratch_folder folder;
  auto const path = make_file(folder, "file", 20 * 512);
  testing::filesystem fs(
      small_config(512, 32), read_faults([](std::uint64_t offset, std::uint64_t) {
        return offset == 5 * 512 ? fault_action::fail(EIO) : fault_action::pass();
      }));
  int const fd = fs.open(path, O_RDONLY);
  CHECK(advise_in_kernel(fs.ref(), fd, 0, 0, advice::willneed) == -EIO);
  CHECK(advise_in_kernel(fs.ref(), fd, 6 * 512, 0, advice::willneed) == 0);
  CHECK(inspect(fs.ref()).problems == "");
}

TEST_CASE(
    "gfadvise dontneed: whole pages of the range go, those cut by its ends and those of other "
    "files stay") {
  scratch_folder folder;
  // With 64 frames most ranges are looked for frame by frame, with 2048 page by page.
  for (std::uint64_t const frames : {64, 2048}) {
    for (auto const who : {caller_kind::block, caller_kind::tile}) {
      CAPTURE(frames);
      CAPTURE(int(who));
      auto const path = make_file(folder, "file", 20 * 512 + 5, 1);
      auto const other = make_file(folder, "other", 8 * 512, 2);
      filesystem fs(small_config(512, frames));
      int const fd = fs.open(path, O_RDONLY);
      int const fd2 = fs.open(other, O_RDONLY);
      CHECK(missing(fs, fd, path, 0, 21 * 512) == 21);
      CHECK(missing(fs, fd2, other, 0, 8 * 512) == 8);
      CHECK(advise_in_kernel(fs.ref(), fd, 3 * 512 + 1, 5 * 512, advice::dontneed, who) == 0);
      CHECK(inspect(fs.ref()).problems == "");
      CHECK(inspect(fs.ref()).ready == 29 - 4);
      CHECK(missing(fs, fd, path, 0, 4 * 512) == 0);
      CHECK(missing(fs, fd, path, 8 * 512, 13 * 512) == 0);
      CHECK(missing(fs, fd, path, 4 * 512, 4 * 512) == 4);
      CHECK(advise_in_kernel(fs.ref(), fd, 20 * 512, 5, advice::dontneed, who) ==
            0);  // all there is of the last page
      CHECK(missing(fs, fd, path, 20 * 512, 5) == 1);
      CHECK(advise_in_kernel(fs.ref(), fd, 20 * 512, 4, advice::dontneed, who) == 0);
      CHECK(missing(fs, fd, path, 20 * 512, 5) == 0);
      CHECK(advise_in_kernel(fs.ref(), fd, 512, 511, advice::dontneed, who) == 0);
      CHECK(advise_in_kernel(fs.ref(), fd, 1 << 20, 0, advice::dontneed, who) == 0);
      CHECK(inspect(fs.ref()).ready == 29);
      CHECK(advise_in_kernel(fs.ref(), fd, 0, 0, advice::dontneed, who) == 0);
      CHECK(inspect(fs.ref()).ready == 8);
      CHECK(inspect(fs.ref()).problems == "");
      CHECK(missing(fs, fd2, other, 0, 8 * 512) == 0);
    }
  }
}

TEST_CASE("gfadvise dontneed: a page that somebody has pinned stays") {
  scratch_folder folder;
  auto const path = make_file(folder, "file", 20 * 512);
  filesystem fs(small_config(512, 64));
  int const fd = fs.open(path, O_RDONLY);
  CHECK(missing(fs, fd, path, 0, 20 * 512) == 20);
  auto there = zeroed<std::uint32_t>(1);
  std::uint64_t const version = fs.ref().link.shared.open_files[rpc::descriptor_index(fd)].version;
  launch(advise_against_a_pinned_page, 1, 64, fs.ref(), fd, version, std::uint64_t(7),
         there.data());
  this_thread_stream().synchronize();
  CHECK(contents(there)[0] == 1);
  CHECK(inspect(fs.ref()).ready == 1);
  CHECK(inspect(fs.ref()).problems == "");
}

TEST_CASE("gfadvise dontneed: pages that were written leave, once the host has their bytes") {
  scratch_folder folder;
  auto const path = make_file(folder, "file", 20 * 512);
  std::atomic<bool> full{true};
  auto faults = std::make_shared<scripted_faults>();
  faults->on_write = [&](std::uint64_t, std::uint64_t) {
    return full ? fault_action::fail(ENOSPC) : fault_action::pass();
  };
  testing::filesystem fs(small_config(512, 64), faults);
  int const fd = fs.open(path, O_RDWR);
  auto const bytes = some_bytes(1, 0, 10 * 512);
  op_batch batch;
  batch.write(0, fd, 0, bytes);
  batch.run(fs.ref(), 1, 64);
  CHECK(batch.result(0) == 10 * 512);
  CHECK(advise_in_kernel(fs.ref(), fd, 0, 0, advice::dontneed) == 0);
  CHECK(inspect(fs.ref()).ready == 10);
  CHECK(fs.sync(fd) == -ENOSPC);
  full = false;
  CHECK(fs.sync(fd) == 0);
  CHECK(advise_in_kernel(fs.ref(), fd, 512, 2 * 512, advice::dontneed) == 0);
  CHECK(inspect(fs.ref()).ready == 8);
  CHECK(advise_in_kernel(fs.ref(), fd, 0, 0, advice::dontneed) == 0);
  CHECK(inspect(fs.ref()).ready == 0);
  CHECK(inspect(fs.ref()).problems == "");
  CHECK(pread_bytes(path, 0, 10 * 512) == bytes);
}

TEST_CASE("filesystem::advise: willneed and dontneed leave the pages in GPU memory alone") {
  scratch_folder folder;
  auto const path = make_file(folder, "file", 20 * 512);
  filesystem fs(small_config(512, 64));
  int const fd = fs.open(path, O_RDONLY);
  CHECK(missing(fs, fd, path, 0, 10 * 512) == 10);
  CHECK(fs.advise(fd, 0, 0, advice::willneed) == 0);
  CHECK(inspect(fs.ref()).ready == 10);
  CHECK(fs.advise(fd, 0, 0, advice::dontneed) == 0);
  CHECK(missing(fs, fd, path, 0, 20 * 512) == 10);
}
