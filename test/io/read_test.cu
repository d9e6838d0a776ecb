// gread: which bytes it gives, at every alignment, across pages, at the end of files and far out.
#include <gpufs/gpufs.hpp>

#include <test/support/cache_state.hpp>
#include <test/support/files.hpp>
#include <test/support/reads.hpp>
#include <test/support/seed.hpp>
#include <test/support/settings.hpp>

#include <doctest/doctest.h>

#include <cerrno>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <system_error>
#include <vector>

namespace cg = cooperative_groups;
using namespace gpufs;
using namespace gpufs::test;

namespace {

constexpr std::uint64_t mebi = 1 << 20;

// Every thread writes down what gread returned to it; every block reads into `count` bytes of its
// own.
__global__ void read_into_every_thread(fs_ref fs, int fd, std::uint64_t count, std::int64_t offset,
                                       std::byte* out, std::int64_t* results) {
  auto const block = cg::this_thread_block();
  io_context io(fs, block);
  results[blockIdx.x * blockDim.x + threadIdx.x] =
      gread(io, fd, out + blockIdx.x * count, count, offset);
}

// Reads the file piece by piece into one shared buffer, which every thread sums up in full after
// each gread and before the next.
__global__ void sum_through_shared_memory(fs_ref fs, int fd, std::uint32_t pieces,
                                          std::uint64_t* sums) {
  constexpr unsigned piece = 1000;
  __shared__ unsigned char bytes[piece];
  auto const block = cg::this_thread_block();
  io_context io(fs, block);
  std::uint64_t sum = 0;
  for (std::uint32_t i = 0; i < pieces; ++i) {
    ssize_t const n = gread(io, fd, bytes, piece, std::int64_t(i) * piece);
    for (ssize_t b = 0; b < n; ++b) sum += std::uint64_t(bytes[(b + threadIdx.x) % n]) * (i + 1);
  }
  sums[threadIdx.x] = sum;
}

}  // namespace

TEST_CASE(
    "gread: every alignment of offset, length and buffer gives the file's bytes and touches no "
    "others") {
  scratch_folder folder;
  auto const path = make_file(folder, "file", 64 << 10);
  // Far fewer frames than pages: bytes come from pulls. As many frames as pages: the second time,
  // from frames.
  for (std::uint64_t const frames : {8, 128}) {
    filesystem fs(small_config(512, frames));
    int const fd = fs.open(path, O_RDONLY);
    REQUIRE(fd > 0);
    std::mt19937_64 random(seed());
    read_batch batch;
    for (unsigned from = 0; from < 16; ++from) {
      for (unsigned to = 0; to < 16; ++to) {
        for (std::uint64_t const count : {1, 16, 23, 515}) {
          auto const page = random() % 120;
          batch.add(fd, path, std::int64_t(page * 512 + from), count + random() % 16, to);
        }
      }
    }
    for (unsigned const threads : {64u, 100u}) {
      CAPTURE(threads);
      CAPTURE(frames);
      batch.run(fs.ref(), 4, threads);
      CHECK(batch.problems() == "");
    }
    batch.run(fs.ref(), 2, 64, caller_kind::tile);
    CHECK(batch.problems() == "");
  }
}

TEST_CASE(
    "gread: reads that start, end and cross at page boundaries are right for every page size and "
    "block size") {
  scratch_folder folder;
  for (std::uint64_t const page :
       {std::uint64_t{512}, std::uint64_t{4096}, std::uint64_t{65536}, mebi}) {
    auto const path = make_file(folder, "file" + std::to_string(page), 5 * page + 77, page);
    filesystem fs(small_config(page, 8));
    int const fd = fs.open(path, O_RDONLY);
    REQUIRE(fd > 0);
    read_batch batch;
    for (std::uint64_t const begin :
         {std::uint64_t{0}, page - 1, page, page + 1, 2 * page - 16, 3 * page + page / 2 + 3}) {
      for (std::uint64_t const count :
           {std::uint64_t{1}, std::uint64_t{33}, page - 1, page, page + 1, 3 * page + 5}) {
        batch.add(fd, path, std::int64_t(begin), count, unsigned((begin + count) % 64));
      }
    }
    for (unsigned const threads : {32u, 64u, 100u, 256u}) {
      CAPTURE(page);
      CAPTURE(threads);
      batch.run(fs.ref(), scaled(3, 2), threads);
      CHECK(batch.problems() == "");
    }
    batch.run(fs.ref(), 2, 64, caller_kind::tile);
    CHECK(batch.problems() == "");
  }
}

TEST_CASE("gread: a page of 4 MiB is read in full and in part") {
  scratch_folder folder;
  auto const path = make_file(folder, "file", 9 * mebi + 5);
  filesystem fs(small_config(4 * mebi, 8));
  int const fd = fs.open(path, O_RDONLY);
  REQUIRE(fd > 0);
  read_batch batch;
  batch.add(fd, path, 0, 9 * mebi + 5);
  batch.add(fd, path, 4 * mebi - 3, 9, 5);
  batch.add(fd, path, 8 * mebi + 1, 4 * mebi, 1);
  batch.run(fs.ref(), 3, 256);
  CHECK(batch.problems() == "");
}

TEST_CASE("gread: one call may ask for more pages than the cache has frames") {
  scratch_folder folder;
  auto const path = make_file(folder, "file", 300 * 512 + 13);
  for (auto const policy : {replacement::lra, replacement::fifo, replacement::clock}) {
    auto c = small_config(512, 8);
    c.policy = policy;
    filesystem fs(c);
    int const fd = fs.open(path, O_RDONLY);
    REQUIRE(fd > 0);
    read_batch batch;
    for (unsigned i = 0; i < 4; ++i) batch.add(fd, path, i, 300 * 512, 3 * i);
    batch.run(fs.ref(), 4, 128);
    CHECK(batch.problems() == "");
    batch.run(fs.ref(), 2, 64, caller_kind::tile);
    CHECK(batch.problems() == "");
  }
}

TEST_CASE("gread: callers may together want more pages than there are channels for requests") {
  scratch_folder folder;
  for (std::uint64_t const page : {std::uint64_t{4096}, std::uint64_t{65536}}) {
    auto const path = make_file(folder, std::to_string(page), 120 * page);
    auto c = small_config(page, 128);
    c.staging_size = 16 * page;  // 16 channels
    c.seats = 4;
    for (auto const who : {caller_kind::block, caller_kind::tile}) {
      CAPTURE(page);
      CAPTURE(int(who));
      filesystem fs(c);
      int const fd = fs.open(path, O_RDONLY);
      read_batch batch;
      for (unsigned i = 0; i < 6; ++i) batch.add(fd, path, std::int64_t(i * 18 * page), 21 * page);
      batch.run(fs.ref(), 3, 64, who);
      CHECK(batch.problems() == "");
      CHECK(fs.stats().timeouts == 0);
      CHECK(inspect(fs.ref()).problems == "");
    }
  }
}

TEST_CASE("gread: short at the end of the file, 0 at and beyond it, whatever the file's size") {
  scratch_folder folder;
  filesystem fs(small_config(512, 16));
  read_batch batch;
  for (std::uint64_t const size : {0, 1, 511, 512, 513, 1024, 4095, 4096, 4097, 70000}) {
    auto const path = make_file(folder, std::to_string(size), size, size);
    int const fd = fs.open(path, O_RDONLY);
    REQUIRE(fd > 0);
    for (std::int64_t const back : {600, 16, 1, 0, -1, -511, -512, -513, -100000}) {
      auto const offset = std::int64_t(size) - back;
      if (offset < 0) continue;
      for (std::uint64_t const count :
           {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{17}, std::uint64_t{5000}}) {
        batch.add(fd, path, offset, count, unsigned(size + count) % 64);
      }
    }
    batch.add(fd, path, 0, std::numeric_limits<std::size_t>::max());
    batch.add(fd, path, 0, std::size_t{1} << 63, 1);
    batch.add_failing(fd, std::numeric_limits<std::int64_t>::max(),
                      std::numeric_limits<std::size_t>::max(), 0);
  }
  batch.run(fs.ref(), 4, 64);
  CHECK(batch.problems() == "");
  batch.run(fs.ref(), 2, 64, caller_kind::tile);
  CHECK(batch.problems() == "");
}

TEST_CASE("gread: holes are zeros, and bytes beyond 4 GiB are the right ones") {
  scratch_folder folder;
  auto const path = folder / "sparse";
  constexpr std::uint64_t gibi = 1ull << 30;
  write_range(path, 1, 0, 5000);
  write_range(path, 2, 4 * gibi - 3000, 6000);
  write_range(path, 3, 5 * gibi + 17, 9000);
  set_size(path, 6 * gibi + 1);
  for (std::uint64_t const page : {std::uint64_t{512}, std::uint64_t{65536}}) {
    filesystem fs(small_config(page, 16));
    int const fd = fs.open(path, O_RDONLY);
    REQUIRE(fd > 0);
    read_batch batch;
    batch.add(fd, path, 4990, 4000);
    batch.add(fd, path, 2 * gibi, 3000, 1);
    batch.add(fd, path, std::int64_t(4 * gibi - 3001), 6002, 2);
    batch.add(fd, path, 4 * gibi, 1);
    batch.add(fd, path, 5 * gibi, 10000, 3);
    batch.add(fd, path, 6 * gibi - 5, 1000);
    batch.add(fd, path, 6 * gibi + 1, 1000);
    batch.run(fs.ref(), 3, 64);
    CHECK(batch.problems() == "");
  }
}

TEST_CASE("gread: page numbers that agree in their low 32 bits are different pages") {
  scratch_folder folder;
  auto const path = folder / "huge";
  constexpr std::uint64_t far = 512ull << 32;
  try {
    set_size(path, far + 4096);
  } catch (std::system_error const& e) {
    MESSAGE("not tested, the file system refuses a file of 2 TiB: ", e.what());
    return;
  }
  write_range(path, 1, 0, 4096);
  write_range(path, 2, far, 4096);
  filesystem fs(small_config(512, 16));
  int const fd = fs.open(path, O_RDONLY);
  REQUIRE(fd > 0);
  read_batch batch;
  for (std::uint64_t i = 0; i < 4; ++i) {
    batch.add(fd, path, std::int64_t(i * 512), 700);
    batch.add(fd, path, std::int64_t(far + i * 512), 700);
  }
  batch.run(fs.ref(), 1, 64);
  CHECK(batch.problems() == "");
  batch.run(fs.ref(), 2, 64);
  CHECK(batch.problems() == "");
}

TEST_CASE(
    "gread: bad descriptors and negative offsets are refused, and every thread gets the result") {
  scratch_folder folder;
  auto const path = make_file(folder, "file", 3000);
  filesystem fs(small_config(512, 8));
  int const fd = fs.open(path, O_RDONLY);
  int const closed = fs.open(make_file(folder, "other", 10), O_RDONLY);
  REQUIRE(fd > 0);
  REQUIRE(fs.close(closed) == 0);
  buffer<std::byte> out(4096);
  buffer<std::int64_t> results(512);
  struct expectation {
    int fd;
    std::uint64_t count;
    std::int64_t offset;
    std::int64_t result;
  };
  int const other_generation = fd + (1 << 16);
  for (auto const& e :
       std::vector<expectation>{{fd, 1000, 2500, 500},
                                {fd, 1000, 3000, 0},
                                {fd, 0, 0, 0},
                                {fd, 100, -1, -EINVAL},
                                {fd, 0, std::numeric_limits<std::int64_t>::min(), -EINVAL},
                                {-1, 100, 0, -EBADF},
                                {0, 100, 0, -EBADF},
                                {1, 100, 0, -EBADF},
                                {std::numeric_limits<int>::max(), 100, 0, -EBADF},
                                {std::numeric_limits<int>::min(), 100, 0, -EBADF},
                                {other_generation, 100, 0, -EBADF},
                                {closed, 100, 0, -EBADF}}) {
    for (unsigned const threads : {32u, 100u, 256u}) {
      launch(read_into_every_thread, 2, threads, fs.ref(), e.fd, e.count, e.offset, out.data(),
             results.data());
      this_thread_stream().synchronize();
      std::vector<std::int64_t> got(2 * threads);
      results.copy_to_host(got.data(), got.size());
      CAPTURE(e.fd);
      CAPTURE(e.offset);
      CHECK(got == std::vector<std::int64_t>(2 * threads, e.result));
    }
  }
}

TEST_CASE("gread: a group of fewer than 32 threads gets -EINVAL") {
  scratch_folder folder;
  filesystem fs(small_config(512, 8));
  int const fd = fs.open(make_file(folder, "file", 3000), O_RDONLY);
  REQUIRE(fd > 0);
  buffer<std::byte> out(4096);
  buffer<std::int64_t> results(16);
  launch(read_into_every_thread, 1, 16, fs.ref(), fd, std::uint64_t{100}, std::int64_t{0},
         out.data(), results.data());
  this_thread_stream().synchronize();
  std::vector<std::int64_t> got(16);
  results.copy_to_host(got.data(), got.size());
  CHECK(got == std::vector<std::int64_t>(16, -EINVAL));
}

TEST_CASE(
    "gread: its barriers let a group reuse one buffer without any of its own, in shared memory "
    "too") {
  scratch_folder folder;
  auto const path = make_file(folder, "file", 20'500);
  constexpr unsigned threads = 64;
  for (std::uint64_t const page : {512, 65536}) {
    filesystem fs(small_config(page, 8));
    int const fd = fs.open(path, O_RDONLY);
    REQUIRE(fd > 0);
    buffer<std::uint64_t> sums(threads);
    launch(sum_through_shared_memory, 1, threads, fs.ref(), fd, 21u, sums.data());
    this_thread_stream().synchronize();
    std::vector<std::uint64_t> got(threads);
    sums.copy_to_host(got.data(), got.size());
    auto const bytes = pread_bytes(path, 0, 20'500);
    std::uint64_t expected = 0;
    for (std::size_t i = 0; i < bytes.size(); ++i)
      expected += std::uint64_t(bytes[i]) * (i / 1000 + 1);
    CHECK(got == std::vector<std::uint64_t>(threads, expected));
  }
}
