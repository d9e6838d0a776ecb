// array::fetch_add: exact sums and old values, whoever else adds, stores or writes back meanwhile.
#include <gpufs/gpufs.hpp>

#include <test/support/cache_state.hpp>
#include <test/support/device_buffers.hpp>
#include <test/support/elements.hpp>
#include <test/support/faults.hpp>
#include <test/support/files.hpp>
#include <test/support/seed.hpp>
#include <test/support/settings.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

namespace cg = cooperative_groups;
using namespace gpufs;
using namespace gpufs::test;

namespace {

using word = std::uint64_t;

/// How many elements of the file are not start + sums[i].
template <class T>
std::uint64_t differing(std::string const& path, std::vector<T> const& start,
                        std::vector<T> const& sums) {
  auto const got = elements_in<T>(path);
  REQUIRE(got.size() == start.size());
  std::uint64_t bad = 0;
  for (std::size_t i = 0; i < got.size(); ++i) bad += got[i] != T(start[i] + sums[i]) ? 1 : 0;
  return bad;
}

__device__ std::uint64_t seed_of_thread(std::uint64_t seed) {
  return seed + (blockIdx.x * blockDim.x + threadIdx.x) * 31;
}

/// To which elements the lanes of a warp add in a round.
enum class spread : std::uint32_t { one, neighbours, few, all, half_of_the_lanes };

__device__ std::uint64_t pick(spread how, std::uint64_t round, std::uint64_t count,
                              std::uint64_t& random) {
  std::uint64_t const warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
  switch (how) {
    case spread::one: return 7 % count;
    case spread::neighbours: return ((round * 37 + warp) * 32 + lane_id()) % count;
    case spread::few: return (round * 11 + draw(random) % 5) % count;
    default: return draw(random) % count;
  }
}

/// Adds amounts to elements, and the same amounts to `sums` in GPU memory.
template <class T>
__global__ void add_amounts(fs_ref fs, int fd, std::int64_t offset, std::uint64_t count, spread how,
                            std::uint32_t rounds, std::uint64_t seed, T* sums, word* wrong) {
  io_context io(fs, cg::this_thread_block());
  array<T> const a(io, fd, offset, count);
  std::uint64_t random = seed_of_thread(seed);
  for (std::uint32_t round = 0; round < rounds; ++round) {
    if (how == spread::half_of_the_lanes && draw(random) % 2 == 0) continue;
    std::uint64_t const i = pick(how, round, count, random);
    T const amount = static_cast<T>(1 + draw(random) % 100);
    static_cast<void>(a.fetch_add(i, amount));
    atomic_ref<T>(sums[i]).fetch_add(amount, memory_order_relaxed);
  }
  count_if(a.error() != 0, wrong);
}

/// Draws numbers from `counters` elements, `apart` from each other. drawn[c * most + n]: how often
/// number n came from counter c.
__global__ void draw_numbers(fs_ref fs, int fd, std::uint64_t counters, std::uint64_t apart,
                             std::uint32_t rounds, std::uint64_t seed, std::uint32_t* drawn,
                             std::uint64_t most, word* wrong) {
  io_context io(fs, cg::this_thread_block());
  array<word> const a(io, fd);
  std::uint64_t random = seed_of_thread(seed);
  for (std::uint32_t round = 0; round < rounds; ++round) {
    std::uint64_t const c = draw(random) % counters;
    std::uint64_t const number = a.fetch_add(c * apart, 1);
    count_if(number >= most, wrong);
    if (number < most)
      atomic_ref<std::uint32_t>(drawn[c * most + number]).fetch_add(1, memory_order_relaxed);
  }
  count_if(a.error() != 0, wrong);
}

/// Even lanes add to their elements, odd lanes store to theirs beside them; the group writes others
/// by gwrite. Through two descriptors.
__global__ void add_among_stores(fs_ref fs, int fd, int other, std::uint32_t rounds, word* wrong) {
  auto const block = cg::this_thread_block();
  io_context io(fs, block);
  array<word> a(io, blockIdx.x % 2 == 0 ? fd : other);
  __shared__ word written[1];
  std::uint64_t const stored = 64 + blockIdx.x * blockDim.x + threadIdx.x;
  for (std::uint32_t round = 0; round < rounds; ++round) {
    if (lane_id() % 2 == 0) {
      static_cast<void>(a.fetch_add(threadIdx.x / 2, 1));
    } else {
      a[stored] = round;
    }
    block.sync();
    if (threadIdx.x == 0) written[0] = round;
    block.sync();
    ssize_t const n = gwrite(io, fd, written, 8, std::int64_t(8 * (400 + blockIdx.x)));
    count_if(n != 8, wrong);
  }
  count_if(a.error() != 0, wrong);
}

/// Adds, says so, waits until the host has looked, adds again.
__global__ void add_twice(fs_ref fs, int fd, std::uint64_t count, std::uint32_t* added,
                          std::uint32_t* go_on, word* wrong) {
  auto const block = cg::this_thread_block();
  io_context io(fs, block);
  array<word> const a(io, fd);
  for (unsigned pass = 0; pass < 2; ++pass) {
    for (std::uint64_t i = threadIdx.x; i < count; i += blockDim.x)
      static_cast<void>(a.fetch_add(i, 3));
    block.sync();
    if (pass == 0 && threadIdx.x == 0) {
      atomic_ref<std::uint32_t, scope::system>(*added).store(1, memory_order_release);
      wait_for(*go_on, 1);
    }
    block.sync();
  }
  count_if(a.error() != 0, wrong);
}

/// Block 0 truncates to sizes behind the elements; the others add.
__global__ void add_among_truncations(fs_ref fs, int fd, std::uint64_t count, std::uint32_t rounds,
                                      std::uint64_t seed, word* sums, word* wrong) {
  auto const block = cg::this_thread_block();
  io_context io(fs, block);
  if (blockIdx.x == 0) {
    for (std::uint32_t round = 0; round < rounds / 4; ++round)
      count_if(gftruncate(io, fd, std::int64_t(count * 8 + round % 3 * 700)) != 0, wrong);
    count_if(gftruncate(io, fd, std::int64_t(count * 8)) != 0, wrong);
    return;
  }
  array<word> const a(io, fd, 0, count);
  std::uint64_t random = seed_of_thread(seed);
  for (std::uint32_t round = 0; round < rounds; ++round) {
    std::uint64_t const i = draw(random) % count;
    static_cast<void>(a.fetch_add(i, 1));
    atomic_ref<word>(sums[i]).fetch_add(1, memory_order_relaxed);
  }
  count_if(a.error() != 0, wrong);
}

/// One warp adds 5 to element i. results: old value and error of each lane that called.
__global__ void add_one(fs_ref fs, int fd, std::uint64_t i, unsigned lanes, word* old,
                        std::int32_t* errors) {
  io_context io(fs, cg::this_thread_block());
  array<word> const a(io, fd, 0, 100);
  if (threadIdx.x < lanes) old[threadIdx.x] = a.fetch_add(i, 5);
  errors[threadIdx.x] = a.error();
}

/// Holds all frames while an add needs one, then lets them go and adds again.
__global__ void add_without_frames(fs_ref fs, int held_fd, int fd, std::uint64_t per_page,
                                   word* old, std::int32_t* errors) {
  auto const block = cg::this_thread_block();
  io_context io(fs, block);
  array<word const> const h(io, held_fd);
  array<word> const a(io, fd, 0, 100);
  auto p = h.pointer(threadIdx.x % 8 * per_page);
  static_cast<void>(*p);
  block.sync();
  if (threadIdx.x == 0) {
    old[0] = a.fetch_add(1, 5);
    errors[0] = a.error();
  }
  block.sync();
  p.release();
  block.sync();
  array<word> const b(io, fd, 0, 100);
  if (threadIdx.x == 0) {
    old[1] = b.fetch_add(1, 5);
    errors[1] = b.error();
  }
}

template <class T>
void check_type(T start, unsigned adds) {
  scratch_folder folder;
  std::vector<T> const before(300, start);
  auto const path = file_of(folder, before);
  filesystem fs(small_config(512, 8));
  int const fd = fs.open(path, O_RDWR);
  auto const sums = zeroed<T>(before.size());
  auto const wrong = zeroed<word>(1);
  launch(add_amounts<T>, 2, 64, fs.ref(), fd, std::int64_t{0}, before.size(), spread::all, adds,
         seed(), sums.data(), wrong.data());
  CHECK(result_in(wrong)[0] == 0);
  CHECK(fs.close(fd) == 0);
  CHECK(differing(path, before, contents(sums)) == 0);
}

}  // namespace

TEST_CASE(
    "fetch_add: adds of many blocks to elements of many pages through 8 frames give exact sums, "
    "however the lanes come together") {
  for (auto const how :
       {spread::one, spread::neighbours, spread::few, spread::all, spread::half_of_the_lanes}) {
    CAPTURE(std::uint32_t(how));
    scratch_folder folder;
    auto const start = counted_up(1600);  // 25 pages
    auto const path = file_of(folder, start);
    filesystem fs(small_config(512, 8));
    int const fd = fs.open(path, O_RDWR);
    auto const sums = zeroed<word>(start.size());
    auto const wrong = zeroed<word>(1);
    launch(add_amounts<word>, scaled(6, 3), 64, fs.ref(), fd, std::int64_t{0}, start.size(), how,
           scaled(24, 6), seed(), sums.data(), wrong.data());
    CHECK(result_in(wrong)[0] == 0);
    if (how == spread::all || how == spread::neighbours) CHECK(fs.stats().evictions >= 8);
    CHECK(fs.close(fd) == 0);
    CHECK(differing(path, start, contents(sums)) == 0);
    CHECK(inspect(fs.ref()).problems == "");
  }
}

TEST_CASE("fetch_add: every old value comes once, also from counters whose pages are evicted") {
  scratch_folder folder;
  constexpr std::uint64_t counters = 20, apart = 64, rounds = scaled(12, 4);
  constexpr unsigned blocks = scaled(6, 3), threads = 64;
  constexpr std::uint64_t most = blocks * threads * rounds;
  auto const path = file_of(folder, std::vector<word>(counters * apart, 0));
  filesystem fs(small_config(512, 8));
  int const fd = fs.open(path, O_RDWR);
  auto const drawn = zeroed<std::uint32_t>(counters * most);
  auto const wrong = zeroed<word>(1);
  launch(draw_numbers, blocks, threads, fs.ref(), fd, counters, apart, std::uint32_t(rounds),
         seed(), drawn.data(), most, wrong.data());
  CHECK(result_in(wrong)[0] == 0);
  CHECK(fs.close(fd) == 0);
  auto const values = elements_in<word>(path);
  auto const times = contents(drawn);
  std::uint64_t sum = 0, bad = 0;
  for (std::uint64_t c = 0; c < counters; ++c) {
    sum += values[c * apart];
    for (std::uint64_t n = 0; n < most; ++n)
      bad += times[c * most + n] != (n < values[c * apart] ? 1u : 0u) ? 1 : 0;
  }
  CHECK(bad == 0);
  CHECK(sum == most);
}

TEST_CASE("fetch_add: integers, which wrap around, float and double") {
  constexpr unsigned adds = scaled(20, 5);
  check_type<std::int32_t>(-1000, adds);
  check_type<std::uint32_t>(std::numeric_limits<std::uint32_t>::max() - 50, adds);
  check_type<std::int64_t>(-5'000'000'000, adds);
  check_type<unsigned long long>(std::numeric_limits<unsigned long long>::max() - 50, adds);
  check_type<float>(0.5F, adds);
  check_type<double>(-0.25, adds);
}

TEST_CASE(
    "fetch_add: stores to other elements, gwrites and other descriptors of the file lose nothing, "
    "and take nothing away") {
  scratch_folder folder;
  auto const start = counted_up(512);
  auto const path = file_of(folder, start);
  filesystem fs(small_config(512, 8));
  int const fd = fs.open(path, O_RDWR);
  int const other = fs.open(path, O_RDWR | O_APPEND);
  REQUIRE(fd != other);
  constexpr unsigned blocks = 4, threads = 64;
  constexpr std::uint32_t rounds = scaled(20, 5);
  auto const wrong = zeroed<word>(1);
  launch(add_among_stores, blocks, threads, fs.ref(), fd, other, rounds, wrong.data());
  CHECK(result_in(wrong)[0] == 0);
  CHECK(fs.close(other) == 0);
  CHECK(fs.close(fd) == 0);
  auto expected = start;
  for (unsigned t = 0; t < threads; t += 2) expected[t / 2] += blocks * rounds;
  for (unsigned t = 1; t < blocks * threads; t += 2) expected[64 + t] = rounds - 1;
  for (unsigned b = 0; b < blocks; ++b) expected[400 + b] = rounds - 1;
  CHECK(elements_in<word>(path) == expected);
}

TEST_CASE(
    "fetch_add: scattered elements of a page, more than a write buffer lists, leave the bytes "
    "between them to others") {
  scratch_folder folder;
  constexpr std::uint64_t count = 1024;  // pages of 512 elements
  auto const path = file_of(folder, std::vector<word>(count, 1000));
  filesystem fs(small_config(4096, 8));
  int const fd = fs.open(path, O_RDWR);
  auto const sums = zeroed<word>(count);
  auto const wrong = zeroed<word>(1);
  // Another process stores to element 77 of the first page, to which nobody adds.
  launch(add_amounts<word>, 4, 64, fs.ref(), fd, std::int64_t{640}, std::uint64_t{900}, spread::all,
         scaled(20, 5), seed(), sums.data(), wrong.data());
  int const theirs = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  word const value = 4711;
  CHECK(::pwrite(theirs, &value, 8, 8 * 77) == 8);
  ::close(theirs);
  CHECK(result_in(wrong)[0] == 0);
  CHECK(fs.close(fd) == 0);
  auto const got = elements_in<word>(path);
  auto const added = contents(sums);
  std::uint64_t bad = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    word const sum = i >= 80 && i < 980 ? added[i - 80] : 0;
    bad += got[i] != (i == 77 ? value : 1000 + sum) ? 1 : 0;
  }
  CHECK(bad == 0);
}

TEST_CASE("fetch_add: fs.sync has the file hold all adds that have returned, while others go on") {
  scratch_folder folder;
  constexpr std::uint64_t count = 300;
  std::vector<word> const start(count, 10);
  auto const path = file_of(folder, start);
  filesystem fs(small_config(512, 8));
  int const fd = fs.open(path, O_RDWR);
  pinned_buffer<std::uint32_t> flags(2);
  flags.fill_zero();
  auto const wrong = zeroed<word>(1);
  launch(add_twice, 1, 64, fs.ref(), fd, count, &flags[0], &flags[1], wrong.data());
  wait_until([&] { return std::atomic_ref(flags[0]).load() == 1; }, "the first adds");
  CHECK(fs.sync(fd) == 0);
  CHECK(differing(path, start, std::vector<word>(count, 3)) == 0);
  std::atomic_ref(flags[1]).store(1);
  // Write-backs overtake the second adds, which are dirty again.
  for (unsigned i = 0; i < 20; ++i) CHECK(fs.sync() == 0);
  CHECK(result_in(wrong)[0] == 0);
  CHECK(fs.close(fd) == 0);
  CHECK(differing(path, start, std::vector<word>(count, 6)) == 0);
}

TEST_CASE("fetch_add: new versions of the file, by gftruncate and fs.write, lose no add") {
  scratch_folder folder;
  constexpr std::uint64_t count = 500;
  std::vector<word> const start(count, 1);
  auto const path = file_of(folder, start);
  filesystem fs(small_config(512, 8));
  int const fd = fs.open(path, O_RDWR);
  auto const sums = zeroed<word>(count);
  auto const wrong = zeroed<word>(1);
  launch(add_among_truncations, 4, 64, fs.ref(), fd, count - 1, scaled(24, 8), seed(), sums.data(),
         wrong.data());
  CHECK(result_in(wrong)[0] == 0);
  CHECK(fs.sync(fd) == 0);
  auto expected = start;
  expected.pop_back();
  auto added = contents(sums);
  added.pop_back();
  CHECK(differing(path, expected, added) == 0);

  auto const more = zeroed<word>(count);
  launch(add_amounts<word>, 4, 64, fs.ref(), fd, std::int64_t{0}, count - 1, spread::all,
         scaled(24, 8), seed(), more.data(), wrong.data());
  for (word i = 0; i < 10; ++i) CHECK(fs.write(fd, &i, 8, std::int64_t(8 * (count - 1))) == 8);
  CHECK(result_in(wrong)[0] == 0);
  CHECK(fs.close(fd) == 0);
  auto const first = contents(sums);
  auto const second = contents(more);
  expected.push_back(9);
  for (std::uint64_t i = 0; i + 1 < count; ++i) expected[i] += first[i] + second[i];
  CHECK(elements_in<word>(path) == expected);
}

TEST_CASE("fetch_add: elements beyond the end of the file count from 0, and the file grows") {
  scratch_folder folder;
  auto const path = make_file(folder, "short", 100);
  filesystem fs(small_config(512, 8));
  int const fd = fs.open(path, O_RDWR);
  auto const old = filled(std::vector<word>(32, 9));
  auto const errors = zeroed<std::int32_t>(32);
  launch(add_one, 1, 32, fs.ref(), fd, std::uint64_t{90}, 1u, old.data(), errors.data());
  CHECK(result_in(errors)[0] == 0);
  CHECK(contents(old)[0] == 0);
  CHECK(fs.close(fd) == 0);
  auto const got = elements_in<word>(path);
  REQUIRE(got.size() == 91);
  CHECK(got[90] == 5);
  CHECK(got[89] == 0);
  CHECK(pread_bytes(path, 0, 100) == pread_bytes(make_file(folder, "again", 100), 0, 100));
}

TEST_CASE("fetch_add: refused descriptors and indices add nothing") {
  scratch_folder folder;
  std::vector<word> const start(200, 1);
  auto const path = file_of(folder, start);
  filesystem fs(small_config(512, 8));
  auto const old = filled(std::vector<word>(32, 9));
  auto const errors = zeroed<std::int32_t>(32);
  auto const add = [&](int fd, std::uint64_t i) {
    launch(add_one, 1, 32, fs.ref(), fd, i, 32u, old.data(), errors.data());
    auto const all = result_in(errors);
    CHECK(all == std::vector<std::int32_t>(32, all[0]));
    CHECK(contents(old) == std::vector<word>(32, 0));
    return all[0];
  };
  CHECK(add(fs.open(path, O_RDONLY), 3) == -EACCES);
  CHECK(add(fs.open(path, O_WRONLY), 3) == -EACCES);
  CHECK(add(fs.open(folder / "once", O_WRONLY | O_CREAT | O_GWRONCE), 3) == -EACCES);
  CHECK(add(-1, 3) == -EBADF);
  int const fd = fs.open(path, O_RDWR);
  CHECK(add(fd, 100) == -ERANGE);
  CHECK(add(fd, ~0ull) == -ERANGE);
  CHECK(fs.close(fd) == 0);
  CHECK(elements_in<word>(path) == start);
  CHECK(inspect(fs.ref()).problems == "");
}

TEST_CASE("fetch_add: after a failed fetch or write-back nothing is added, and later adds go on") {
  scratch_folder folder;
  auto const path = file_of(folder, std::vector<word>(200, 1));
  std::atomic<bool> reads_fail{true}, writes_fail{false};
  auto const faults = read_faults([&](std::uint64_t, std::uint64_t) {
    return reads_fail ? testing::fault_action::fail(ENODEV) : testing::fault_action::pass();
  });
  faults->on_write = [&](std::uint64_t, std::uint64_t) {
    return writes_fail ? testing::fault_action::fail(ENOSPC) : testing::fault_action::pass();
  };
  testing::filesystem fs(small_config(512, 8), faults);
  int const fd = fs.open(path, O_RDWR);
  auto const old = zeroed<word>(32);
  auto const errors = zeroed<std::int32_t>(32);
  auto const add = [&] {
    launch(add_one, 1, 32, fs.ref(), fd, std::uint64_t{3}, 1u, old.data(), errors.data());
    return result_in(errors)[0];
  };
  CHECK(add() == -ENODEV);
  CHECK(contents(old)[0] == 0);
  reads_fail = false;
  writes_fail = true;
  CHECK(add() == 0);
  CHECK(contents(old)[0] == 1);
  // Nobody has reported the error until sync(fd) does.
  CHECK(fs.sync() == -EIO);
  CHECK(add() == -ENOSPC);
  CHECK(contents(old)[0] == 0);
  CHECK(fs.sync(fd) == -ENOSPC);
  writes_fail = false;
  CHECK(fs.sync(fd) == 0);
  CHECK(add() == 0);
  CHECK(contents(old)[0] == 6);
  CHECK(fs.close(fd) == 0);
  CHECK(elements_in<word>(path)[3] == 11);
}

TEST_CASE("fetch_add: while every frame is held nothing is added, and -ENOMEM says so") {
  scratch_folder folder;
  auto const path = file_of(folder, std::vector<word>(100, 1));
  auto settings = small_config(512, 8);
  settings.rpc_timeout_ms = 2000;
  filesystem fs(settings);
  auto const old = zeroed<word>(2);
  auto const errors = zeroed<std::int32_t>(2);
  launch(add_without_frames, 1, 64, fs.ref(), fs.open(make_file(folder, "held", 4096), O_RDONLY),
         fs.open(path, O_RDWR), std::uint64_t{64}, old.data(), errors.data());
  CHECK(result_in(errors) == std::vector<std::int32_t>{-ENOMEM, 0});
  CHECK(contents(old) == std::vector<word>{0, 1});
  CHECK(inspect(fs.ref()).problems == "");
}
