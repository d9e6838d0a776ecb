// Random reads from many callers against pread, with a cache far smaller than the file, over the
// ways gread can be set up.
#include <gpufs/gpufs.hpp>

#include <test/support/files.hpp>
#include <test/support/reads.hpp>
#include <test/support/seed.hpp>
#include <test/support/settings.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <random>
#include <string>
#include <vector>

using namespace gpufs;
using namespace gpufs::test;

namespace {

constexpr std::uint64_t kibi = 1 << 10;

struct open_file {
  std::string path;
  std::uint64_t size;
  int fd;
};

// Op i belongs to caller i modulo `callers`. Each caller goes on where it stopped, jumps, or reads
// again what it read, and sometimes changes the file.
void add_random_reads(read_batch& batch, std::mt19937_64& random,
                      std::vector<open_file> const& files, std::uint64_t page, unsigned callers,
                      unsigned ops) {
  struct caller {
    std::size_t file = 0;
    std::uint64_t next = 0;
  };
  std::vector<caller> all(callers);
  for (unsigned i = 0; i < ops; ++i) {
    caller& c = all[i % callers];
    if (random() % 16 == 0) c.file = random() % files.size();
    auto const& file = files[c.file];
    switch (random() % 4) {
      case 0: c.next = random() % (file.size + page / 2 + 1); break;
      case 1: c.next = random() % (file.size / page + 1) * page; break;
      default: break;
    }
    std::uint64_t const count = random() % 3 == 0   ? random() % (3 * page)
                                : random() % 3 == 0 ? page
                                                    : random() % 200;
    batch.add(file.fd, file.path, std::int64_t(c.next), count, unsigned(random() % 64));
    if (random() % 8 != 0) c.next += count;
  }
}

statistics compare(config const& c, unsigned blocks, unsigned threads, caller_kind who,
                   unsigned ops) {
  scratch_folder folder;
  std::mt19937_64 random(seed());
  filesystem fs(c);
  std::vector<open_file> files;
  std::uint64_t const cache = c.cache_size;
  for (std::uint64_t const size :
       {4 * cache + 1, 2 * cache + c.page_size / 2, 3 * c.page_size, std::uint64_t{5}}) {
    auto const path = make_file(folder, std::to_string(files.size()), size, size);
    files.push_back({path, size, fs.open(path, O_RDONLY)});
    REQUIRE(files.back().fd > 0);
  }
  read_batch batch;
  unsigned const callers = who == caller_kind::block ? blocks : blocks * threads / 32;
  add_random_reads(batch, random, files, c.page_size, callers, ops);
  CAPTURE(seed());
  CAPTURE(c.page_size);
  CAPTURE(threads);
  check_twice(fs, batch, blocks, threads, who);
  return fs.stats();
}

}  // namespace

TEST_CASE("differential: random reads equal pread for every page size, by blocks and by tiles") {
  struct size {
    std::uint64_t page;
    std::uint64_t frames;
    unsigned ops;
  };
  for (auto const& s : {size{512, 16, 600}, size{4 * kibi, 32, 400}, size{64 * kibi, 8, 200},
                        size{1024 * kibi, 8, 40}}) {
    compare(small_config(s.page, s.frames), 8, 64, caller_kind::block, scaled(s.ops, s.ops / 2));
    compare(small_config(s.page, s.frames), 4, 64, caller_kind::tile, scaled(s.ops, s.ops / 2));
  }
}

TEST_CASE("differential: random reads equal pread for every block size") {
  for (unsigned const threads : {32u, 100u, 256u}) {
    compare(small_config(4 * kibi, 24), scaled(6, 2), threads, caller_kind::block, scaled(300, 60));
  }
}

TEST_CASE("differential: random reads equal pread under every replacement policy") {
  for (auto const policy : {replacement::lra, replacement::fifo, replacement::clock}) {
    for (std::uint64_t const page : {512, 4096}) {
      auto c = small_config(page, 8);  // fewer frames than warps: callers fight for them
      c.policy = policy;
      CAPTURE(int(policy));
      compare(c, 8, 64, caller_kind::block, scaled(400, 200));
    }
  }
}

TEST_CASE("differential: random reads equal pread with readahead of every kind") {
  for (std::uint64_t const prefetch : {std::uint64_t{4} * kibi, 60 * kibi, prefetch_automatic}) {
    for (std::uint32_t const depth : {0u, 3u}) {
      auto c = small_config(4 * kibi, 32);
      c.prefetch_size = prefetch;
      c.prefetch_depth = depth;
      CAPTURE(prefetch);
      CAPTURE(depth);
      compare(c, 8, 64, caller_kind::block, scaled(300, 150));
      c.seats = 3;  // some callers read ahead, others do not
      compare(c, 4, 64, caller_kind::tile, scaled(300, 150));
    }
  }
}

TEST_CASE(
    "differential: random reads equal pread with pread threads and with whatever io_uring the "
    "machine allows") {
  for (auto const backend : {io_backend::automatic, io_backend::pread}) {
    for (std::uint32_t const threads : {1u, 3u}) {
      auto c = small_config(4 * kibi, 16);
      c.backend = backend;
      c.host_threads = threads;
      compare(c, 8, 64, caller_kind::block, scaled(300, 150));
    }
  }
}

TEST_CASE(
    "differential: random reads equal pread past the OS page cache, in place and by detour, with "
    "readahead and without") {
  for (std::uint64_t const page : {512, 4096}) {
    for (std::uint64_t const prefetch : {std::uint64_t{0}, prefetch_automatic}) {
      auto c = small_config(page, 32);
      c.path = io_path::direct;
      c.prefetch_size = prefetch;
      CAPTURE(page);
      CAPTURE(prefetch);
      auto const s = compare(c, 8, 64, caller_kind::block, scaled(200, 100));
      if (s.host_bytes_direct == 0) MESSAGE("not tested: no O_DIRECT here");
    }
  }
}

TEST_CASE(
    "differential: random reads equal pread by way of the twin, with readahead and without, by "
    "blocks and by tiles") {
  for (std::uint64_t const page : {4 * kibi, 64 * kibi}) {
    auto c = small_config(page, page == 4 * kibi ? 32 : 8);
    c.path = io_path::dma;
    c.prefetch_size = page == 4 * kibi ? 60 * kibi : prefetch_automatic;
    CAPTURE(page);
    compare(c, 8, 64, caller_kind::block, scaled(200, 100));
    c.prefetch_size = 0;
    compare(c, 4, 64, caller_kind::tile, scaled(200, 100));
  }
}
