// Arrays that write through: a page whose bytes are all stored goes to write-back at once. Nothing
// else changes: bytes, errors, what others store to the page.
#include <gpufs/gpufs.hpp>

#include <test/support/cache_state.hpp>
#include <test/support/device_buffers.hpp>
#include <test/support/elements.hpp>
#include <test/support/faults.hpp>
#include <test/support/files.hpp>
#include <test/support/seed.hpp>
#include <test/support/settings.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

namespace cg = cooperative_groups;
using namespace gpufs;
using namespace gpufs::test;

namespace {

using word = std::uint64_t;
constexpr std::uint64_t page = 512;
constexpr std::uint64_t per_page = page / 8;

/// An element as long as a page: one store completes it.
struct record {
  word words[per_page];
};

/// The write buffers that have had a page of a file that begins at byte 0, whatever happened to
/// them since.
struct posted_pages {
  std::uint64_t handed_over = 0;
  std::uint64_t complete = 0;
  std::uint64_t wrong = 0;  ///< those where the two differ
};

/// Looks at what was posted last to each buffer. The bytes [begin, end) of the file are written
/// through. A page that was complete when it was posted must have been handed over, and no other
/// one may have been.
posted_pages look_at_posts(filesystem const& fs, std::uint64_t begin, std::uint64_t end) {
  auto const& writes = fs.ref().link.shared.writes;
  posted_pages r;
  for (std::uint64_t b = 0; b < writes.count; ++b) {
    auto const posted = std::atomic_ref(writes.posted[b]).load();
    if (posted == 0) continue;
    auto const& h = writes.headers[b];
    std::uint64_t const start = h.page * page;
    std::uint64_t const from = begin > start ? begin - start : 0;
    std::uint64_t const to = std::min(end - start, page);
    bool complete = false;
    for (std::uint32_t i = 0; i < h.ranges; ++i)
      complete |= h.range[i].begin <= from && h.range[i].end >= to;
    bool const urgent = (posted & rpc::posted_urgent) != 0;
    r.complete += complete ? 1 : 0;
    r.handed_over += urgent ? 1 : 0;
    r.wrong += urgent != complete ? 1 : 0;
  }
  return r;
}

__global__ void store_records(fs_ref fs, int fd, std::uint64_t count, write_policy policy,
                              word* wrong) {
  io_context io(fs, cg::this_thread_block());
  array<record> const a(io, fd, 0, array<record>::to_the_end, policy);
  record r;
  for (auto i = word(threadIdx.x); i < count; i += blockDim.x) {
    for (std::uint64_t k = 0; k < per_page; ++k) r.words[k] = i * 100 + k;
    a.store(i, r);
  }
  count_if(a.error() != 0, wrong);
}

/// Stores value i + 1 to elements [first, first + count) of the view, in an order of each thread.
__global__ void store_words(fs_ref fs, int fd, std::int64_t offset, std::uint64_t count,
                            std::uint64_t factor, write_policy policy, word* wrong) {
  io_context io(fs, cg::this_thread_block());
  array<word> const a(io, fd, offset, count, policy);
  for (auto i = word(threadIdx.x); i < count; i += blockDim.x) {
    std::uint64_t const at = i * factor % count;
    a.store(at, at + 1);
  }
  count_if(a.error() != 0, wrong);
}

/// Completes page 0, then stores to element 0 without a pause until the host says that it has seen
/// the page in the file.
__global__ void store_until(fs_ref fs, int fd, std::uint32_t* seen, word* wrong) {
  io_context io(fs, cg::this_thread_block());
  array<word> const a(io, fd, 0, array<word>::to_the_end, write_policy::through);
  for (auto i = word(threadIdx.x); i < per_page; i += blockDim.x) a.store(i, 7);
  __syncthreads();
  if (threadIdx.x == 0) {
    atomic_ref<std::uint32_t, scope::system> const stop(*seen);
    for (word n = 1; stop.load(memory_order_acquire) == 0; ++n) a.store(0, n);
    a.store(0, 7);
  }
  count_if(a.error() != 0, wrong);
}

/// Blocks store to words of their own, by an array of either policy, by fetch_add and by gwrite.
/// Each lane takes a way of its own.
__global__ void store_anyhow(fs_ref fs, int fd, std::uint64_t count, std::uint32_t rounds,
                             std::uint64_t seed, word* last, word* wrong) {
  __shared__ word value[1];
  auto const block = cg::this_thread_block();
  io_context io(fs, block);
  array<word> const later(io, fd), now(io, fd, 0, count, write_policy::through);
  std::uint64_t random = seed + (blockIdx.x * blockDim.x + threadIdx.x) * 31;
  std::uint64_t const threads = gridDim.x * blockDim.x;
  std::uint64_t const mine = blockIdx.x * blockDim.x + threadIdx.x;
  for (std::uint32_t round = 0; round < rounds; ++round) {
    std::uint64_t const i = mine + draw(random) % (count / threads) * threads;
    word const x = draw(random);
    switch (draw(random) % 4) {
      case 0: later.store(i, x); break;
      case 1: static_cast<void>(now.fetch_add(i, x - last[i])); break;
      default: now.store(i, x);
    }
    last[i] = x;
    if (round % 4 != 0) continue;
    // Thread 0's own words, by the block.
    block.sync();
    std::uint64_t const theirs = blockIdx.x * blockDim.x + round % (count / threads) * threads;
    if (threadIdx.x == 0) last[theirs] = value[0] = round;
    block.sync();
    count_if(gwrite(io, fd, value, 8, std::int64_t(theirs * 8)) != 8, wrong);
  }
  count_if(later.error() != 0 || now.error() != 0, wrong);
}

/// One lane stores a record, and says what it got.
__global__ void store_one(fs_ref fs, int fd, std::uint64_t i, std::int32_t* error) {
  io_context io(fs, cg::this_thread_block());
  array<record> const a(io, fd, 0, 8, write_policy::through);
  if (threadIdx.x == 0) {
    a.store(i, record{});
    *error = a.error();
  }
}

__global__ void load_words(fs_ref fs, int fd, word const* expected, std::uint64_t count,
                           word* wrong) {
  io_context io(fs, cg::this_thread_block());
  array<word const> const a(io, fd, 0, count, write_policy::through);
  for (auto i = word(threadIdx.x); i < count; i += blockDim.x) count_if(a[i] != expected[i], wrong);
  count_if(a.error() != 0, wrong);
}

}  // namespace

TEST_CASE("write_policy: a store of a whole page hands it over, through and not otherwise") {
  for (auto const policy : {write_policy::on_evict, write_policy::through}) {
    scratch_folder folder;
    auto const path = file_of(folder, counted_up(8 * per_page));
    filesystem fs(small_config(page, 64));
    int const fd = fs.open(path, O_RDWR);
    auto const wrong = zeroed<word>(1);
    launch(store_records, 1, 32, fs.ref(), fd, std::uint64_t{8}, policy, wrong.data());
    CHECK(result_in(wrong)[0] == 0);
    auto const posts = look_at_posts(fs, 0, 8 * page);
    CHECK(posts.complete == 8);
    CHECK(posts.handed_over == (policy == write_policy::through ? 8 : 0));
    CHECK(fs.close(fd) == 0);
    auto const got = elements_in<word>(path);
    for (std::uint64_t i = 0; i < got.size(); ++i)
      REQUIRE(got[i] == i / per_page * 100 + i % per_page);
  }
}

TEST_CASE(
    "write_policy::through: pages are handed over when their words of the view are complete, in "
    "whatever order they are stored; the view's first and last page count in part") {
  for (std::int64_t const offset : {0, 8, 504, 256})
    for (std::uint64_t const count : {640ull, 131ull, 3ull, 64ull})
      for (std::uint64_t const factor : {1ull, 7ull}) {
        if (count % factor == 0 && factor != 1) continue;
        CAPTURE(offset);
        CAPTURE(count);
        CAPTURE(factor);
        scratch_folder folder;
        auto const before = counted_up(1000);
        auto const path = file_of(folder, before);
        filesystem fs(small_config(page, 64));
        int const fd = fs.open(path, O_RDWR);
        auto const wrong = zeroed<word>(1);
        launch(store_words, 1, 64, fs.ref(), fd, offset, count, factor, write_policy::through,
               wrong.data());
        CHECK(result_in(wrong)[0] == 0);
        auto const begin = std::uint64_t(offset);
        CHECK(look_at_posts(fs, begin, begin + count * 8).wrong == 0);
        CHECK(fs.close(fd) == 0);
        auto expected = before;
        for (std::uint64_t i = 0; i < count; ++i) expected[begin / 8 + i] = i + 1;
        CHECK(elements_in<word>(path) == expected);
      }
}

TEST_CASE("write_policy::through: the host writes a complete page that is stored to without end") {
  scratch_folder folder;
  auto const path = file_of(folder, counted_up(4 * per_page));
  filesystem fs(small_config(page, 64));
  int const fd = fs.open(path, O_RDWR);
  pinned_buffer<std::uint32_t> seen(1);
  seen.fill_zero();
  auto const wrong = zeroed<word>(1);
  launch(store_until, 1, 32, fs.ref(), fd, seen.data(), wrong.data());
  wait_until([&] { return elements_in<word>(path)[per_page - 1] == 7; }, "the page in the file");
  std::atomic_ref(seen[0]).store(1);
  CHECK(result_in(wrong)[0] == 0);
  CHECK(fs.close(fd) == 0);
  auto expected = counted_up(4 * per_page);
  for (std::uint64_t i = 0; i < per_page; ++i) expected[i] = 7;
  CHECK(elements_in<word>(path) == expected);
}

TEST_CASE(
    "write_policy::through: beside arrays that do not, adds and gwrites, through few frames, each "
    "word has its last value, and bytes of nobody stay those of the file") {
  for (std::uint64_t const frames : {8ull, 64ull}) {
    CAPTURE(frames);
    scratch_folder folder;
    constexpr unsigned blocks = scaled(4, 2), threads = 64;
    constexpr std::uint64_t count = blocks * threads * 6;
    auto const before = counted_up(count + 5);
    auto const path = file_of(folder, before);
    filesystem fs(small_config(page, frames));
    int const fd = fs.open(path, O_RDWR);
    auto const last = filled(before);
    auto const wrong = zeroed<word>(1);
    launch(store_anyhow, blocks, threads, fs.ref(), fd, count, scaled(40, 12), seed(), last.data(),
           wrong.data());
    word const theirs = 4711;  // another process, behind all that kernels store
    int const other = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
    CHECK(::pwrite(other, &theirs, 8, 8 * (count + 2)) == 8);
    ::close(other);
    CHECK(result_in(wrong)[0] == 0);
    CHECK(fs.close(fd) == 0);
    auto expected = contents(last);
    expected[count + 2] = theirs;
    CHECK(elements_in<word>(path) == expected);
    CHECK(inspect(fs.ref()).problems == "");
  }
}

TEST_CASE("write_policy::through: a later store and gfsync report a failed write, once") {
  scratch_folder folder;
  auto const path = file_of(folder, counted_up(8 * per_page));
  std::atomic<bool> fails{true};
  auto const faults = read_faults({});
  faults->on_write = [&](std::uint64_t, std::uint64_t) {
    return fails ? testing::fault_action::fail(ENOSPC) : testing::fault_action::pass();
  };
  testing::filesystem fs(small_config(page, 64), faults);
  int const fd = fs.open(path, O_RDWR);
  auto const error = zeroed<std::int32_t>(1);
  auto const store = [&](std::uint64_t i) {
    launch(store_one, 1, 32, fs.ref(), fd, i, error.data());
    return result_in(error)[0];
  };
  CHECK(store(0) == 0);
  CHECK(fs.sync() == -EIO);
  CHECK(store(1) == -ENOSPC);
  CHECK(fs.sync(fd) == -ENOSPC);
  fails = false;
  CHECK(fs.sync(fd) == 0);
  CHECK(store(2) == 0);
  CHECK(fs.close(fd) == 0);
  auto expected = counted_up(8 * per_page);
  for (std::uint64_t i = 0; i < per_page; ++i) expected[i] = expected[2 * per_page + i] = 0;
  CHECK(elements_in<word>(path) == expected);
}

TEST_CASE("write_policy: an array that only reads takes it, and reads as ever") {
  scratch_folder folder;
  auto const values = counted_up(300);
  auto const path = file_of(folder, values);
  filesystem fs(small_config(page, 16));
  int const fd = fs.open(path, O_RDONLY);
  auto const expected = filled(values);
  auto const wrong = zeroed<word>(1);
  launch(load_words, 2, 64, fs.ref(), fd, expected.data(), values.size(), wrong.data());
  CHECK(result_in(wrong)[0] == 0);
  CHECK(fs.close(fd) == 0);
}
