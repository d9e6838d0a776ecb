// The page cache as kernels see it: one fetch per page, pages that stay, replacement, metadata.
#include <gpufs/gpufs.hpp>

#include <test/support/cache_state.hpp>
#include <test/support/faults.hpp>
#include <test/support/files.hpp>
#include <test/support/reads.hpp>
#include <test/support/settings.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace cg = cooperative_groups;
using namespace gpufs;
using namespace gpufs::test;
using testing::fault_action;

namespace {

constexpr std::uint64_t mebi = 1 << 20;

// Each block says that it has begun, then reads `pages` pages, its own first one first.
__global__ void read_the_same_pages(fs_ref fs, int fd, std::uint32_t pages, std::uint32_t* begun,
                                    std::byte* out, std::int64_t* results) {
  auto const block = cg::this_thread_block();
  io_context io(fs, block);
  std::uint64_t const page = 1ull << fs.cache.page_shift;
  if (threadIdx.x == 0)
    atomic_ref<std::uint32_t, scope::system>(begun[blockIdx.x]).store(1, memory_order_release);
  std::int64_t sum = 0;
  for (std::uint32_t i = 0; i < pages; ++i) {
    std::uint64_t const at = (i + blockIdx.x) % pages * page;
    ssize_t const n = gread(io, fd, out + blockIdx.x * pages * page + at, page, std::int64_t(at));
    sum = n < 0 ? n : sum + n;
  }
  if (threadIdx.x == 0) results[blockIdx.x] = sum;
}

struct shared_read {
  statistics stats;
  std::string problems;
};

// `blocks` blocks read the same pages; no read of the file is answered before all of them have
// begun. The cache has room for a frame for every block's attempt at every page: an attempt that
// comes second has taken a frame for nothing, and must not evict for it.
shared_read read_together(replacement policy, std::uint64_t page, std::uint32_t pages,
                          unsigned blocks) {
  scratch_folder folder;
  auto const path = make_file(folder, "file", page * pages);
  auto const gate = std::make_shared<testing::gate>();
  auto c = small_config(page, (blocks + 1) * pages + 32);
  c.policy = policy;
  testing::filesystem fs(
      c, read_faults([gate](std::uint64_t, std::uint64_t) { return fault_action::hold(gate); }));
  int const fd = fs.open(path, O_RDONLY);
  pinned_buffer<std::uint32_t> begun(blocks);
  begun.fill_zero();
  buffer<std::byte> out(blocks * pages * page);
  buffer<std::int64_t> results(blocks);
  launch(read_the_same_pages, blocks, 64, fs.ref(), fd, pages, begun.data(), out.data(),
         results.data());
  wait_until(
      [&] {
        for (auto& b : begun)
          // Pairs with the release in the kernel.
          if (atomic_ref<std::uint32_t, scope::system>(b).load(memory_order_acquire) == 0)
            return false;
        return gate->arrivals() >= 1;
      },
      "all blocks have begun");
  gate->release();
  this_thread_stream().synchronize();

  shared_read r{fs.stats(), inspect(fs.ref()).problems};
  std::vector<std::int64_t> got(blocks);
  results.copy_to_host(got.data(), blocks);
  std::vector<std::byte> bytes(out.size());
  out.copy_to_host(bytes.data(), bytes.size());
  auto const expected = pread_bytes(path, 0, page * pages);
  for (unsigned b = 0; b < blocks; ++b) {
    if (got[b] != std::int64_t(page * pages))
      r.problems += "; block " + std::to_string(b) + " got " + std::to_string(got[b]);
    if (!std::equal(expected.begin(), expected.end(),
                    bytes.begin() + std::ptrdiff_t(b * pages * page))) {
      r.problems += "; wrong bytes in block " + std::to_string(b);
    }
  }
  return r;
}

// Reads single pages one after the other in one block, and returns how many of them were not in the
// cache.
std::uint64_t misses_of(filesystem& fs, int fd, std::string const& path,
                        std::vector<std::uint64_t> const& pages) {
  std::uint64_t const page = fs.settings().page_size;
  read_batch batch;
  for (auto const p : pages) batch.add(fd, path, std::int64_t(p * page), page);
  auto const before = fs.stats();
  batch.run(fs.ref(), 1, 32);
  CHECK(batch.problems() == "");
  auto const done = fs.stats() - before;
  CHECK(done.hits + done.misses == pages.size());
  return done.misses;
}

std::vector<std::uint64_t> range(std::uint64_t from, std::uint64_t to) {
  std::vector<std::uint64_t> all;
  for (; from < to; ++from) all.push_back(from);
  return all;
}

}  // namespace

TEST_CASE("cache: blocks that miss one page together fetch it once") {
  for (auto const policy : {replacement::lra, replacement::fifo, replacement::clock}) {
    for (std::uint64_t const page : {512, 65536}) {
      for (std::uint32_t const pages : {1u, 12u}) {
        constexpr unsigned blocks = 8;
        CAPTURE(int(policy));
        CAPTURE(page);
        CAPTURE(pages);
        auto const r = read_together(policy, page, pages, blocks);
        CHECK(r.problems == "");
        CHECK(r.stats.misses == pages);
        CHECK(r.stats.read_requests == pages);
        CHECK(r.stats.host_bytes == page * pages);
        CHECK(r.stats.hits + r.stats.waits == std::uint64_t(blocks - 1) * pages);
        CHECK(r.stats.bytes_delivered == blocks * page * pages);
      }
    }
  }
}

TEST_CASE("cache: a page stays from kernel to kernel, whoever read it first") {
  scratch_folder folder;
  auto const path = make_file(folder, "file", 30 * 4096 + 100);
  filesystem fs(small_config(4096, 64));
  int const fd = fs.open(path, O_RDONLY);
  read_batch batch;
  for (unsigned i = 0; i < 31; ++i) batch.add(fd, path, i * 4096, 4096, i);
  batch.run(fs.ref(), 4, 64);
  CHECK(batch.problems() == "");
  auto const cold = fs.stats();
  CHECK(cold.misses == 31);
  CHECK(cold.evictions == 0);
  batch.run(fs.ref(), 3, 100);
  batch.run(fs.ref(), 2, 64, caller_kind::tile);
  CHECK(batch.problems() == "");
  auto const warm = fs.stats() - cold;
  CHECK(warm.hits == 62);
  CHECK(warm.misses == 0);
  CHECK(warm.requests == 0);
  CHECK(warm.host_bytes == 0);
}

TEST_CASE(
    "cache: pages of an unchanged file are still there after it was closed and opened again") {
  scratch_folder folder;
  auto const path = make_file(folder, "file", 20 * 4096);
  let_stamps_age(path);
  filesystem fs(small_config(4096, 64));
  int fd = fs.open(path, O_RDONLY);
  REQUIRE(fd > 0);
  CHECK(misses_of(fs, fd, path, range(0, 20)) == 20);
  REQUIRE(fs.close(fd) == 0);
  fd = fs.open(path, O_RDONLY);
  REQUIRE(fd > 0);
  CHECK(misses_of(fs, fd, path, range(0, 20)) == 0);
}

TEST_CASE(
    "cache: pages belong to the file: names of one file share them, equal pages of different files "
    "are apart") {
  scratch_folder folder;
  auto const path = make_file(folder, "file", 8 * 512, 1);
  auto const other = make_file(folder, "other", 8 * 512, 2);
  auto const link = folder / "link";
  auto const symbolic = folder / "symbolic";
  std::filesystem::create_hard_link(path, link);
  std::filesystem::create_symlink(path, symbolic);
  let_stamps_age(path);
  filesystem fs(small_config(512, 32));
  CHECK(misses_of(fs, fs.open(path, O_RDONLY), path, range(0, 8)) == 8);
  CHECK(misses_of(fs, fs.open(link, O_RDONLY), path, range(0, 8)) == 0);
  CHECK(misses_of(fs, fs.open(symbolic, O_RDONLY), path, range(0, 8)) == 0);
  CHECK(misses_of(fs, fs.open(other, O_RDONLY), other, range(0, 8)) == 8);
  CHECK(misses_of(fs, fs.open(path, O_RDONLY), path, range(0, 8)) == 0);
}

TEST_CASE("cache: as many pages as there are frames stay; one more costs one") {
  scratch_folder folder;
  auto const path = make_file(folder, "file", 100 * 512);
  for (auto const policy : {replacement::lra, replacement::fifo, replacement::clock}) {
    CAPTURE(int(policy));
    auto c = small_config(512, 16);
    c.policy = policy;
    filesystem fs(c);
    int const fd = fs.open(path, O_RDONLY);
    CHECK(misses_of(fs, fd, path, range(0, 16)) == 16);
    CHECK(misses_of(fs, fd, path, range(0, 16)) == 0);
    CHECK(fs.stats().evictions == 0);
    CHECK(misses_of(fs, fd, path, {16}) == 1);
    CHECK(fs.stats().evictions == 1);
    CHECK(inspect(fs.ref()).ready == 16);
    misses_of(fs, fd, path, range(0, 100));
    auto const s = fs.stats();
    CHECK(s.misses - s.evictions == 16);
    CHECK(inspect(fs.ref()).problems == "");
  }
}

TEST_CASE(
    "replacement: fifo and lra throw out the oldest page even if it was just read, clock passes "
    "over it") {
  scratch_folder folder;
  auto const path = make_file(folder, "file", 100 * 512);
  for (auto const policy : {replacement::lra, replacement::fifo, replacement::clock}) {
    CAPTURE(int(policy));
    auto c = small_config(512, 8);
    c.policy = policy;
    filesystem fs(c);
    int const fd = fs.open(path, O_RDONLY);
    CHECK(misses_of(fs, fd, path, range(0, 8)) == 8);
    CHECK(misses_of(fs, fd, path, {0, 8}) == 1);
    bool const passes_over = policy == replacement::clock;
    CHECK(misses_of(fs, fd, path, range(2, 9)) == 0);
    CHECK(misses_of(fs, fd, path, {passes_over ? 0ull : 1ull}) == 0);
    CHECK(misses_of(fs, fd, path, {passes_over ? 1ull : 0ull}) == 1);
  }
}

TEST_CASE("cache: a bucket that is full makes room instead of spinning") {
  scratch_folder folder;
  auto const path = make_file(folder, "file", 200 * 512);
  for (auto const policy : {replacement::lra, replacement::fifo}) {
    auto c = small_config(512, 64);
    c.policy = policy;
    filesystem fs(c);
    int const fd = fs.open(path, O_RDONLY);
    auto ref = fs.ref();
    ref.cache.bucket_count = 1;  // 32 ways for 64 frames
    buffer<fs_ref> handle(1);
    ref.self = handle.data();
    handle.copy_from_host(&ref, 1);
    read_batch batch;
    for (unsigned i = 0; i < 100; ++i)
      batch.add(fd, path, i * 7 % 190 * 512, i % 3 * 1000 + 100, i % 64);
    batch.run(ref, 8, 64);
    CHECK(batch.problems() == "");
    auto const state = inspect(ref);
    CHECK(state.problems == "");
    CHECK(state.ready <= 32);
  }
}

TEST_CASE(
    "cache: metadata is at most 2 % of it at 4 KiB pages, 1.5 KiB for each seat, and a seventh of "
    "what may be dirty; it does not grow with files") {
  scratch_folder folder;
  auto c = small_config(4096, 1024 * mebi / 4096);
  c.seats = config{}.seats;
  c.max_open_files = config{}.max_open_files;
  c.prefetch_size = prefetch_automatic;
  filesystem fs(c);
  auto const dirty = fs.ref().link.shared.writes.count * 4096;
  std::uint64_t const seats = c.seats * 1536ull;
  CHECK((fs.metadata_bytes() - dirty / 7 - seats) * 50 <= c.cache_size);
  auto reading = c;
  reading.write_memory = 0;
  CHECK((filesystem(reading).metadata_bytes() - seats) * 50 <= c.cache_size);
  auto fewer = reading;
  fewer.seats = 1;
  CHECK(filesystem(reading).metadata_bytes() - filesystem(fewer).metadata_bytes() <= seats);
  auto const before = fs.metadata_bytes();
  auto const path = folder / "sparse";
  set_size(path, 1ull << 40);
  int const fd = fs.open(path, O_RDONLY);
  REQUIRE(fd > 0);
  CHECK(misses_of(fs, fd, path, {0, (1ull << 28) - 1, 1ull << 27}) == 3);
  CHECK(fs.metadata_bytes() == before);
}
