// Counters of descriptors: each descriptor's share of what the filesystem counts, and no other's.
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
#include <cstdint>
#include <string>
#include <vector>

#include <fcntl.h>

namespace cg = cooperative_groups;
using namespace gpufs;
using namespace gpufs::test;

namespace gpufs {

// In the namespace of its operands: doctest finds it there only.
static bool operator==(file_statistics const& a, file_statistics const& b) {
  return to_json_fields(a) == to_json_fields(b);
}

}  // namespace gpufs

namespace {

using word = std::uint64_t;
constexpr std::uint64_t page = 512;

config counting(std::uint64_t frames) {
  auto c = small_config(page, frames);
  c.file_counters = true;
  return c;
}

file_statistics counts_of(filesystem const& fs, int fd) {
  file_statistics s;
  CHECK(fs.file_stats(fd, s) == 0);
  return s;
}

/// One block reads pages [0, pages) one by one, `times` times.
__global__ void read_pages_of(fs_ref fs, int fd, std::uint32_t pages, std::uint32_t times,
                              word* wrong) {
  __shared__ std::byte buf[page];
  io_context io(fs, cg::this_thread_block());
  for (std::uint32_t i = 0; i < pages * times; ++i)
    count_if(gread(io, fd, buf, page, std::int64_t(i % pages * page)) != page, wrong);
}

/// One block writes pages [0, pages) in full, then the first 8 bytes of each again.
__global__ void write_pages_of(fs_ref fs, int fd, std::uint32_t pages, word* wrong) {
  __shared__ std::byte buf[page];
  io_context io(fs, cg::this_thread_block());
  for (std::uint32_t i = 0; i < 2 * pages; ++i) {
    std::size_t const n = i < pages ? page : 8;
    count_if(gwrite(io, fd, buf, n, std::int64_t(i % pages * page)) != ssize_t(n), wrong);
  }
}

/// A warp stores to elements, adds to some, and reads through held pointers.
__global__ void use_elements(fs_ref fs, int fd, std::uint32_t pages, word* wrong) {
  io_context io(fs, cg::this_thread_block());
  array<word> const a(io, fd);
  for (std::uint32_t p = 0; p < pages; ++p) a.store(p * 64 + threadIdx.x, 1);
  static_cast<void>(a.fetch_add(threadIdx.x, 1));
  auto const at = a.pointer(threadIdx.x);
  for (std::uint32_t p = 0; p < pages; ++p) static_cast<void>(at[p * 64]);
  count_if(a.error() != 0 || at.error() != 0, wrong);
}

/// Every block draws files, and ways to read and write them.
__global__ void use_files(fs_ref fs, int const* fds, std::uint32_t files, std::uint64_t bytes,
                          std::uint32_t rounds, std::uint64_t seed, word* wrong) {
  __shared__ std::byte buf[3 * page];
  auto const block = cg::this_thread_block();
  io_context io(fs, block);
  std::uint64_t random = seed + blockIdx.x * 977;
  for (std::uint32_t round = 0; round < rounds; ++round) {
    // Each file is used, whatever is drawn.
    auto const file = round < files ? (round + blockIdx.x) % files : draw(random) % files;
    int const fd = fds[file];
    std::size_t const n = 1 + draw(random) % sizeof buf;
    auto const at = std::int64_t(draw(random) % (bytes - n));
    std::uint64_t const first = draw(random) % (bytes / 8 - 8);
    array<word> const a(io, fd);
    switch (draw(random) % 5) {
      case 0: count_if(gwrite(io, fd, buf, n, at) != ssize_t(n), wrong); break;
      case 1: a.store(first + threadIdx.x % 8, round); break;
      case 2: static_cast<void>(a.load(first + threadIdx.x % 8)); break;
      case 3: {
        auto const p = a.pointer(first);
        static_cast<void>(p[threadIdx.x % 8]);
        count_if(p.error() != 0, wrong);
        break;
      }
      default: count_if(gread(io, fd, buf, n, at) != ssize_t(n), wrong);
    }
    count_if(a.error() != 0, wrong);
    block.sync();
  }
}

/// The whole group asks for the counts: before and behind a read of one page, and of no file.
__global__ void ask(fs_ref fs, int fd, file_statistics* counts, std::int32_t* results) {
  __shared__ std::byte buf[page];
  io_context io(fs, cg::this_thread_block());
  unsigned const t = threadIdx.x;
  results[t] = gfstats(io, fd, &counts[t]);
  if (gread(io, fd, buf, page, 0) < 0 && t == 0) counts[t].hits = 1;
  results[blockDim.x + t] = gfstats(io, fd, &counts[blockDim.x + t]);
  file_statistics none;
  results[2 * blockDim.x + t] = gfstats(io, fd + 1, &none);
}

/// Reads one page each time that the host says so.
__global__ void read_on_demand(fs_ref fs, int fd, std::uint32_t* turn, std::uint32_t* done) {
  __shared__ std::byte buf[page];
  auto const block = cg::this_thread_block();
  io_context io(fs, block);
  for (std::uint32_t i = 1; i <= 2; ++i) {
    if (threadIdx.x == 0) wait_for(*turn, i);
    block.sync();
    static_cast<void>(gread(io, fd, buf, page, 0));
    block.sync();
    if (threadIdx.x == 0)
      atomic_ref<std::uint32_t, scope::system>(*done).store(i, memory_order_release);
  }
}

}  // namespace

TEST_CASE("file_stats: a page read first is a miss, then a hit; bytes are those that gread gave") {
  scratch_folder folder;
  filesystem fs(counting(32));
  int const fd = fs.open(make_file(folder, "file", 10 * page), O_RDONLY);
  int const other = fs.open(make_file(folder, "other", 10 * page), O_RDONLY);
  auto const wrong = zeroed<word>(1);
  CHECK(to_text(counts_of(fs, fd)).empty());
  launch(read_pages_of, 1, 64, fs.ref(), fd, 10u, 3u, wrong.data());
  CHECK(result_in(wrong)[0] == 0);
  CHECK(counts_of(fs, fd) == file_statistics{20, 10, 0, 30 * page, 0});
  CHECK(to_text(counts_of(fs, other)).empty());
  auto const before = counts_of(fs, fd);
  launch(read_pages_of, 1, 64, fs.ref(), fd, 4u, 1u, wrong.data());
  CHECK(result_in(wrong)[0] == 0);
  CHECK(counts_of(fs, fd) - before == file_statistics{4, 0, 0, 4 * page, 0});
}

TEST_CASE("file_stats: gwrite has misses of pages that it enters, also in full, and hits") {
  scratch_folder folder;
  filesystem fs(counting(64));
  int const fd = fs.open(make_file(folder, "file", 10 * page), O_RDWR);
  auto const wrong = zeroed<word>(1);
  launch(write_pages_of, 1, 64, fs.ref(), fd, 10u, wrong.data());
  CHECK(result_in(wrong)[0] == 0);
  CHECK(counts_of(fs, fd) == file_statistics{10, 10, 0, 0, 10 * page + 80});
  CHECK(fs.close(fd) == 0);
}

TEST_CASE("file_stats: stores, adds and held pointers count a look-up for each page of a warp") {
  scratch_folder folder;
  filesystem fs(counting(64));
  int const fd = fs.open(make_file(folder, "file", 8 * page), O_RDWR);
  auto const wrong = zeroed<word>(1);
  launch(use_elements, 1, 32, fs.ref(), fd, 8u, wrong.data());
  CHECK(result_in(wrong)[0] == 0);
  auto const s = counts_of(fs, fd);
  CHECK(s.misses == 8);
  CHECK(s.bytes_written == 8 * 32 * 8 + 32 * 8);
  // Lanes come in groups that the emulated device draws. All together: 1 and 8; each alone: 32.
  CHECK(s.hits + s.waits >= 9);
  CHECK(s.hits + s.waits <= 31 * 8 + 32 + 8 * 32);
  CHECK(s.bytes_delivered == 0);
  CHECK(fs.close(fd) == 0);
}

TEST_CASE(
    "file_stats: what many blocks do to many files through few frames adds up to what the "
    "filesystem counts") {
  scratch_folder folder;
  filesystem fs(counting(24));
  constexpr std::uint32_t files = 5;
  constexpr std::uint64_t bytes = 20 * page;
  std::vector<int> fds;
  for (std::uint32_t f = 0; f < files; ++f)
    fds.push_back(fs.open(make_file(folder, "file" + std::to_string(f), bytes), O_RDWR));
  auto const numbers = filled(fds);
  auto const wrong = zeroed<word>(1);
  launch(use_files, scaled(8, 3), 64, fs.ref(), numbers.data(), files, bytes, scaled(60, 15),
         seed(), wrong.data());
  CHECK(result_in(wrong)[0] == 0);
  file_statistics sum;
  for (int const fd : fds) {
    auto const s = counts_of(fs, fd);
    CHECK(s.hits + s.misses > 0);
#define GPUFS_SUM(name, help) sum.name += s.name;
    GPUFS_FILE_COUNTERS(GPUFS_SUM)
#undef GPUFS_SUM
  }
  auto const all = fs.stats();
#define GPUFS_EQUAL(name, help) CHECK_MESSAGE(sum.name == all.name, #name);
  GPUFS_FILE_COUNTERS(GPUFS_EQUAL)
#undef GPUFS_EQUAL
  CHECK(all.evictions > 0);
  CHECK(inspect(fs.ref()).problems == "");
  for (int const fd : fds) CHECK(fs.close(fd) == 0);
}

TEST_CASE("file_stats: a failed fetch is a miss, and a wait for another's page is none") {
  scratch_folder folder;
  std::atomic<bool> fails{true};
  auto const faults = read_faults([&](std::uint64_t, std::uint64_t) {
    return fails ? testing::fault_action::fail(ENODEV) : testing::fault_action::pass();
  });
  testing::filesystem fs(counting(32), faults);
  int const fd = fs.open(make_file(folder, "file", page), O_RDONLY);
  auto const wrong = zeroed<word>(1);
  launch(read_pages_of, 1, 64, fs.ref(), fd, 1u, 1u, wrong.data());
  CHECK(result_in(wrong)[0] != 0);
  CHECK(counts_of(fs, fd) == file_statistics{0, 1, 0, 0, 0});
  fails = false;
  auto const fine = zeroed<word>(1);
  launch(read_pages_of, 8, 32, fs.ref(), fd, 1u, 1u, fine.data());
  CHECK(result_in(fine)[0] == 0);
  auto const s = counts_of(fs, fd);
  CHECK(s.misses == 2);
  // A block that waited finds the page afterwards, and counts a wait only.
  CHECK(s.hits + s.waits == 7);
  CHECK(s.bytes_delivered == 8 * page);
}

TEST_CASE("file_stats: a descriptor in the place of a closed one begins at 0, in each stripe") {
  scratch_folder folder;
  auto c = counting(64);
  c.max_open_files = 1;
  filesystem fs(c);
  auto const first = make_file(folder, "first", 4 * page);
  auto const second = make_file(folder, "second", 4 * page);
  auto const wrong = zeroed<word>(1);
  int before = -1;
  for (std::uint32_t turn = 0; turn < 6; ++turn) {
    int const fd = fs.open(turn % 2 == 0 ? first : second, O_RDONLY);
    REQUIRE(fd > 0);
    REQUIRE(fd != before);
    CHECK(to_text(counts_of(fs, fd)).empty());
    unsigned const blocks = turn % 3 == 0 ? 40 : 1;  // all stripes, or one
    launch(read_pages_of, blocks, 32, fs.ref(), fd, 4u, 1u, wrong.data());
    CHECK(result_in(wrong)[0] == 0);
    auto const s = counts_of(fs, fd);
    CHECK(s.hits + s.misses + s.waits == 4 * blocks);
    CHECK(s.bytes_delivered == 4 * page * blocks);
    CHECK(fs.close(fd) == 0);
    file_statistics none;
    CHECK(fs.file_stats(fd, none) == -EBADF);
    before = fd;
  }
}

TEST_CASE("file_stats: a kernel that goes on with a closed descriptor counts for no other one") {
  scratch_folder folder;
  auto c = counting(64);
  c.max_open_files = 1;
  filesystem fs(c);
  auto const first = make_file(folder, "first", page);
  auto const second = make_file(folder, "second", 4 * page);
  pinned_buffer<std::uint32_t> flags(2);
  flags.fill_zero();
  auto const say = [&](std::uint32_t turn) {
    std::atomic_ref(flags[0]).store(turn);
    wait_until([&] { return std::atomic_ref(flags[1]).load() == turn; }, "the kernel's read");
  };
  int fd = fs.open(first, O_RDONLY);
  launch(read_on_demand, 1, 32, fs.ref(), fd, &flags[0], &flags[1]);
  say(1);
  CHECK(counts_of(fs, fd).misses == 1);
  CHECK(fs.close(fd) == 0);
  fd = fs.open(second, O_RDONLY);
  say(2);
  this_thread_stream().synchronize();
  CHECK(to_text(counts_of(fs, fd)).empty());
}

TEST_CASE("file_stats: counters are off by default, cost no memory then, and -EOPNOTSUPP says so") {
  scratch_folder folder;
  auto const path = make_file(folder, "file", 4 * page);
  file_statistics s;
  filesystem off(small_config(page, 32)), on(counting(32));
  CHECK(on.metadata_bytes() == off.metadata_bytes() + 64 * 2048);
  int const fd = off.open(path, O_RDONLY);
  CHECK(off.file_stats(fd, s) == -EOPNOTSUPP);
  CHECK(off.file_stats(fd + 1, s) == -EBADF);
  for (int const bad : {-1, 0, 1, 0x7fffffff}) CHECK(on.file_stats(bad, s) == -EBADF);
  auto const counts = zeroed<file_statistics>(64);
  auto const results = zeroed<std::int32_t>(96);
  launch(ask, 1, 32, off.ref(), fd, counts.data(), results.data());
  std::vector<std::int32_t> expected(96, -EOPNOTSUPP);
  for (unsigned t = 64; t < 96; ++t) expected[t] = -EBADF;
  CHECK(result_in(results) == expected);
}

TEST_CASE("gfstats: every thread gets the descriptor's counts; groups of less than a warp do not") {
  scratch_folder folder;
  filesystem fs(counting(32));
  int const fd = fs.open(make_file(folder, "file", 4 * page), O_RDONLY);
  auto const wrong = zeroed<word>(1);
  launch(read_pages_of, 3, 32, fs.ref(), fd, 1u, 1u, wrong.data());
  CHECK(result_in(wrong)[0] == 0);
  auto const first = counts_of(fs, fd);
  constexpr unsigned threads = 80;
  auto const counts = zeroed<file_statistics>(2 * threads);
  auto const results = zeroed<std::int32_t>(3 * threads);
  launch(ask, 1, threads, fs.ref(), fd, counts.data(), results.data());
  auto const got = result_in(results);
  auto const all = contents(counts);
  auto const second = counts_of(fs, fd);
  CHECK(second - first == file_statistics{1, 0, 0, page, 0});
  for (unsigned t = 0; t < threads; ++t) {
    CHECK(got[t] == 0);
    CHECK(got[threads + t] == 0);
    CHECK(got[2 * threads + t] == -EBADF);
    CHECK(all[t] == first);
    CHECK(all[threads + t] == second);
  }
  auto const few = zeroed<std::int32_t>(96);
  launch(ask, 1, 16, fs.ref(), fd, counts.data(), few.data());
  CHECK(result_in(few)[0] == -EINVAL);
}
