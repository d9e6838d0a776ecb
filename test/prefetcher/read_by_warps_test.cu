// Long reads that the warps of a block share out: what readers get, and what is left behind, when
// chunks fail or come late, frames are few, or callers share their pages.
#include <gpufs/gpufs.hpp>

#include <test/support/cache_state.hpp>
#include <test/support/faults.hpp>
#include <test/support/file_ops.hpp>
#include <test/support/files.hpp>
#include <test/support/reads.hpp>
#include <test/support/seed.hpp>
#include <test/support/settings.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace cg = cooperative_groups;
using namespace gpufs;
using namespace gpufs::test;
using testing::fault_action;

namespace {

constexpr std::uint64_t kibi = 1 << 10, mebi = 1 << 20;

config streaming(std::uint64_t page, std::uint64_t frames) {
  auto c = small_config(page, frames);
  c.path = io_path::pull;
  c.prefetch_size = prefetch_automatic;
  c.staging_size = 4 * mebi;
  c.prefetch_memory = 8 * mebi;
  return c;
}

/// Reads the bytes [begin, end) of the file in turn, `request` at a time.
read_batch in_turn(int fd, std::string const& path, std::uint64_t begin, std::uint64_t end,
                   std::uint64_t request) {
  read_batch batch;
  for (std::uint64_t at = begin; at < end; at += request)
    batch.add(fd, path, std::int64_t(at), std::min(request, end - at));
  return batch;
}

/// A block reads a page with one context, and then the first `size` bytes with another.
__global__ void read_page_and_all(fs_ref fs, int fd, std::uint64_t page, std::byte* out,
                                  std::uint64_t size, std::int64_t* result) {
  auto const block = cg::this_thread_block();
  io_context io(fs, block);
  {
    io_context other(fs, block);
    static_cast<void>(gread(other, fd, out, 4096, static_cast<std::int64_t>(page * 4096)));
  }
  ssize_t const got = gread(io, fd, out, size, 0);
  if (threadIdx.x == 0) *result = got;
}

}  // namespace

TEST_CASE("reads by warps: every page comes once, whatever page size, block size and request") {
  scratch_folder folder;
  std::uint64_t const size = 6 * mebi + 1234;
  auto const path = make_file(folder, "file", size);
  struct combination {
    std::uint64_t page;
    unsigned threads;
    std::uint64_t request;
  };
  std::vector<combination> all;
  for (std::uint64_t const page : {1 * kibi, 4 * kibi, 8 * kibi, 16 * kibi})
    for (unsigned const threads : {32u, 64u, 107u, 256u})
      for (std::uint64_t const request : {300 * kibi + 5, 1 * mebi, 4 * mebi})
        all.push_back({page, threads, request});
  // Slow code takes every fifth, so each value comes with others.
  for (std::size_t i = 0; i < all.size(); i += scaled(1, 5)) {
    std::uint64_t const page = all[i].page, request = all[i].request;
    unsigned const threads = all[i].threads;
    filesystem fs(streaming(page, 16 * mebi / page));
    int const fd = fs.open(path, O_RDONLY);
    CAPTURE(page);
    CAPTURE(threads);
    CAPTURE(request);
    read_batch batch = in_turn(fd, path, 0, size, request);
    batch.run(fs.ref(), 1, threads);
    CHECK(batch.problems() == "");
    CHECK(inspect(fs.ref()).problems == "");
    auto const s = fs.stats();
    CHECK(s.misses == (size + page - 1) / page);
    CHECK(s.host_bytes == size);
    CHECK(s.waits == 0);
    CHECK(s.bytes_delivered == size);
    // There is one warp, or the last one is not full.
    if (threads == 32 || threads == 107) CHECK(s.pages_by_warps == 0);
    bool const has_many = page <= 4 * kibi && request >= 1 * mebi;
    if (has_many && (threads == 64 || threads == 256)) CHECK(s.pages_by_warps != 0);
  }
}

TEST_CASE("reads by warps: a stream of long requests is mostly read in this way, others are not") {
  scratch_folder folder;
  constexpr std::uint64_t page = 4 * kibi, size = 16 * mebi;
  auto const path = make_file(folder, "file", size);
  filesystem fs(streaming(page, 2 * size / page));
  int const fd = fs.open(path, O_RDONLY);
  read_batch batch = in_turn(fd, path, 0, size, 1 * mebi);
  batch.run(fs.ref(), 1, 256);
  CHECK(batch.problems() == "");
  CHECK(fs.stats().pages_by_warps > size / page * 3 / 4);
  auto const before = fs.stats();
  batch.run(fs.ref(), 1, 256);
  CHECK(batch.problems() == "");
  auto const again = fs.stats() - before;
  CHECK(again.hits == size / page);
  CHECK(again.misses == 0);
  for (auto const who : {caller_kind::block, caller_kind::tile}) {
    filesystem other(streaming(page, 2 * size / page));
    int const file = other.open(path, O_RDONLY);
    // Short requests of a block, and long ones of a tile, which is one warp.
    std::uint64_t const request = who == caller_kind::block ? 128 * kibi : 1 * mebi;
    read_batch short_batch = in_turn(file, path, 0, size, request);
    short_batch.run(other.ref(), 1, who == caller_kind::block ? 256 : 32, who);
    CHECK(short_batch.problems() == "");
    CHECK(other.stats().pages_by_warps == 0);
    CHECK(other.stats().host_bytes == size);
  }
}

TEST_CASE("reads by warps: a chunk that cannot be read fails the bytes that are not there") {
  scratch_folder folder;
  constexpr std::uint64_t page = 4 * kibi, size = 8 * mebi, request = 1 * mebi;
  auto const path = make_file(folder, "file", size);
  std::mt19937 random(seed());
  for (int round = 0; round < 4; ++round) {
    std::uint64_t const broken_page = size / page / 4 + random() % (size / page / 2);
    std::uint64_t const broken_at = broken_page * page;
    std::atomic<bool> broken{true};
    testing::filesystem fs(streaming(page, 2 * size / page), read_faults_at(broken_at, [&] {
                             return broken ? fault_action::fail(EIO) : fault_action::pass();
                           }));
    int const fd = fs.open(path, O_RDONLY);
    CAPTURE(broken_page);
    std::uint64_t const failing = broken_at / request * request;
    read_batch batch = in_turn(fd, path, 0, failing, request);
    // The bytes before the broken page are delivered, and the next read meets the error.
    if (broken_at != failing)
      batch.add_cut(fd, path, std::int64_t(failing), request, broken_at - failing);
    batch.add_failing(fd, std::int64_t(broken_at), request, -EIO);
    batch.run(fs.ref(), 1, 256);
    CHECK(batch.problems() == "");
    CHECK(inspect(fs.ref()).problems == "");
    CHECK(fs.stats().errors >= 1);
    CHECK(fs.stats().pages_by_warps > 0);
    broken = false;
    read_batch healed = in_turn(fd, path, 0, size, request);
    healed.run(fs.ref(), 1, 256);
    CHECK(healed.problems() == "");
  }
}

TEST_CASE("reads by warps: answers that come short are completed") {
  scratch_folder folder;
  constexpr std::uint64_t page = 4 * kibi, size = 8 * mebi;
  auto const path = make_file(folder, "file", size);
  std::atomic<std::uint32_t> calls{0};
  testing::filesystem fs(streaming(page, 2 * size / page),
                         read_faults([&](std::uint64_t, std::uint64_t length) {
                           return calls++ % 7 == 3 && length > 1 ? fault_action::shorten(length / 2)
                                                                 : fault_action::pass();
                         }));
  int const fd = fs.open(path, O_RDONLY);
  read_batch batch = in_turn(fd, path, 0, size, 1 * mebi);
  batch.run(fs.ref(), 1, 256);
  CHECK(batch.problems() == "");
  CHECK(inspect(fs.ref()).problems == "");
  CHECK(fs.stats().errors == 0);
  CHECK(fs.stats().pages_by_warps > 0);
}

TEST_CASE("reads by warps: an answer that does not come ends the read before its bytes") {
  scratch_folder folder;
  constexpr std::uint64_t page = 4 * kibi, size = 8 * mebi, request = 1 * mebi;
  constexpr std::uint64_t held_at = 5 * mebi + 77 * page;
  constexpr std::uint64_t held_chunk = held_at / (64 * kibi) * (64 * kibi);
  auto const path = make_file(folder, "file", size);
  auto const gate = std::make_shared<testing::gate>();
  auto c = streaming(page, 2 * size / page);
  c.rpc_timeout_ms = 5000;
  testing::filesystem fs(c, read_faults_at(held_at, [gate] { return fault_action::hold(gate); }));
  int const fd = fs.open(path, O_RDONLY);
  read_batch batch = in_turn(fd, path, 0, 5 * mebi, request);
  batch.add_cut(fd, path, 5 * mebi, request, held_chunk - 5 * mebi);
  batch.run(fs.ref(), 1, 256);
  CHECK(batch.problems() == "");
  CHECK(fs.stats().pages_by_warps > 0);
  CHECK(fs.stats().timeouts > 0);
  gate->release();
  read_batch healed = in_turn(fd, path, 0, size, request);
  healed.run(fs.ref(), 1, 256);
  CHECK(healed.problems() == "");
  CHECK(inspect(fs.ref()).problems == "");
}

TEST_CASE("reads by warps: few frames and several blocks, no error and no wrong byte") {
  scratch_folder folder;
  constexpr std::uint64_t page = 4 * kibi, size = scaled(8, 4) * mebi;
  auto const path = make_file(folder, "file", size);
  for (std::uint64_t const frames : {16u, 100u, 513u, 700u, 1500u}) {
    for (unsigned const blocks : {1u, 3u}) {
      filesystem fs(streaming(page, frames));
      int const fd = fs.open(path, O_RDONLY);
      CAPTURE(frames);
      CAPTURE(blocks);
      // Each block reads every third request, so its own are no stream with three blocks. Then all
      // read the file again.
      read_batch batch = in_turn(fd, path, 0, size, 1 * mebi);
      for (std::uint64_t at = 0; at < size; at += 512 * kibi)
        for (unsigned b = 0; b < blocks; ++b) batch.add(fd, path, std::int64_t(at), 512 * kibi);
      batch.run(fs.ref(), blocks, 256);
      CHECK(batch.problems() == "");
      CHECK(inspect(fs.ref()).problems == "");
      CHECK(fs.stats().errors == 0);
      CHECK(fs.stats().timeouts == 0);
      if (frames >= 700 && blocks == 1) CHECK(fs.stats().pages_by_warps > 0);
    }
  }
}

TEST_CASE("reads by warps: blocks that read the same stream, and pages that were there already") {
  scratch_folder folder;
  constexpr std::uint64_t page = 4 * kibi, size = 8 * mebi;
  auto const path = make_file(folder, "file", size);
  std::mt19937 random(seed());
  for (unsigned const blocks : {1u, 2u, 4u}) {
    // Frames for pages that others were faster with are drawn in vain, so there are many.
    filesystem fs(streaming(page, 8 * size / page));
    int const fd = fs.open(path, O_RDONLY);
    read_batch some;
    // A stream that meets pages of others goes on carefully, so the first half has none.
    for (int i = 0; i < 40; ++i)
      some.add(fd, path, std::int64_t(size / 2 + random() % (size / 2 / page) * page), page);
    some.run(fs.ref(), 8, 32);
    read_batch batch;
    for (std::uint64_t at = 0; at < size; at += 1 * mebi)
      for (unsigned b = 0; b < blocks; ++b) batch.add(fd, path, std::int64_t(at), 1 * mebi);
    batch.run(fs.ref(), blocks, 256);
    CAPTURE(blocks);
    CHECK(batch.problems() == "");
    CHECK(inspect(fs.ref()).problems == "");
    CHECK(fs.stats().misses == size / page);
    if (blocks == 1) CHECK(fs.stats().pages_by_warps > 0);
  }
}

TEST_CASE("reads by warps: a read may last longer than rpc_timeout if each answer comes in time") {
  // A slow disk: the whole file takes it longer than rpc_timeout.
  struct slow_disk final : testing::fault_injector {
    std::atomic<unsigned> reads{0};
    fault_action before_read(rpc::request const&, std::uint64_t, std::uint64_t) override {
      ++reads;
      std::this_thread::sleep_for(std::chrono::milliseconds(35));
      return fault_action::pass();
    }
  };
  scratch_folder folder;
  constexpr std::uint64_t page = 4 * kibi, size = 8 * mebi;
  auto const path = make_file(folder, "file", size);
  auto c = streaming(page, 8 * size / page);
  c.host_threads = 1;
  c.prefetch_memory = 16 * mebi;
  c.rpc_timeout_ms = 3000;
  c.views = false;
  c.backend = io_backend::pread;
  auto const disk = std::make_shared<slow_disk>();
  testing::filesystem fs(c, disk);
  int const fd = fs.open(path, O_RDONLY);
  CHECK(fs.advise(fd, 0, 0, advice::sequential) == 0);
  buffer<std::byte> out(size);
  buffer<std::int64_t> result(1);
  // The warps leave a range that has such a page to the block.
  launch(read_page_and_all, 1, 256, fs.ref(), fd, 600, out.data(), size, result.data());
  this_thread_stream().synchronize();
  std::int64_t got = 0;
  result.copy_to_host(&got, 1);
  CHECK(got == std::int64_t(size));
  CHECK(disk->reads * 35 > c.rpc_timeout_ms);
  std::vector<std::byte> bytes(size);
  out.copy_to_host(bytes.data(), size);
  CHECK(bytes == pread_bytes(path, 0, size));
  CHECK(inspect(fs.ref()).problems == "");
  CHECK(fs.stats().timeouts == 0);
  CHECK(fs.stats().pages_by_warps > 0);
}

TEST_CASE("reads by warps: a written file is read in this way, with what the block has written") {
  scratch_folder folder;
  constexpr std::uint64_t page = 4 * kibi, size = 8 * mebi + 100, request = 1 * mebi;
  auto const path = make_file(folder, "file", size);
  filesystem fs(streaming(page, 3 * size / page));
  int const fd = fs.open(path, O_RDWR);
  auto expected = pread_bytes(path, 0, size);
  op_batch batch;
  std::vector<std::size_t> reads;
  auto const write = [&](std::uint64_t at, std::uint64_t count) {
    auto const bytes = some_bytes(at, at, count);
    batch.write(0, fd, std::int64_t(at), bytes);
    std::copy(bytes.begin(), bytes.end(), expected.begin() + std::ptrdiff_t(at));
  };
  // The block has read ahead behind 4 MiB when it writes there.
  write(100, 3 * page);
  for (std::uint64_t at = 0; at < size; at += request) {
    if (at == 4 * mebi) write(4 * mebi + 50 * page, 5 * page + 7);
    reads.push_back(batch.read(0, fd, std::int64_t(at), request));
  }
  batch.run(fs.ref(), 1, 256);
  for (std::size_t i = 0; i < reads.size(); ++i) {
    auto const from = expected.begin() + std::ptrdiff_t(i * request);
    auto const length = std::min(request, size - i * request);
    CHECK(batch.result(reads[i]) == std::int64_t(length));
    CHECK(batch.bytes(reads[i]) == std::vector<std::byte>(from, from + std::ptrdiff_t(length)));
  }
  CHECK(inspect(fs.ref()).problems == "");
  CHECK(fs.stats().pages_by_warps > 0);
}

TEST_CASE("reads by warps: all ways to the host, advice, sizes of readahead and policies") {
  scratch_folder folder;
  constexpr std::uint64_t page = 4 * kibi, size = 5 * mebi + 777;
  auto const path = make_file(folder, "file", size);
  auto const check = [&](config const& c, advice what) {
    filesystem fs(c);
    int const fd = fs.open(path, O_RDONLY);
    CHECK(fs.advise(fd, 0, 0, what) == 0);
    read_batch batch = in_turn(fd, path, 0, size, 1 * mebi);
    batch.run(fs.ref(), 1, 256);
    CHECK(batch.problems() == "");
    CHECK(inspect(fs.ref()).problems == "");
    CHECK(fs.stats().misses == (size + page - 1) / page);
    return fs.stats().pages_by_warps;
  };
  for (auto const way : built_paths) {
    auto c = streaming(page, 2 * size / page);
    c.path = way;
    CAPTURE(int(way));
    if (way == io_path::registered)
      check(c, advice::normal);  // windows take over
    else
      CHECK(check(c, advice::normal) > 0);
  }
  auto c = streaming(page, 2 * size / page);
  CHECK(check(c, advice::sequential) > 0);
  CHECK(check(c, advice::random) == 0);
  for (std::uint64_t const ahead : {0 * kibi, 60 * kibi, 1020 * kibi}) {
    c.prefetch_size = ahead;
    CAPTURE(ahead);
    check(c, advice::normal);
  }
  c = streaming(page, 2 * size / page);
  for (auto const policy : {replacement::fifo, replacement::clock}) {
    c.policy = policy;
    check(c, advice::normal);
  }
}
