// Callers: more blocks than are resident, more contexts than seats, several contexts in a block,
// tiles, streams side by side.
#include <gpufs/gpufs.hpp>

#include <test/support/cache_state.hpp>
#include <test/support/device_buffers.hpp>
#include <test/support/files.hpp>
#include <test/support/reads.hpp>
#include <test/support/settings.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace cg = cooperative_groups;
using namespace gpufs;
using namespace gpufs::test;

namespace {

constexpr std::uint64_t piece = 3000;  // what each caller reads of its own

// Two contexts of one block, of one filesystem or of two, used in turn.
__global__ void read_through_two_contexts(fs_ref a, int fd_a, fs_ref b, int fd_b, std::byte* out,
                                          std::int64_t* results) {
  auto const block = cg::this_thread_block();
  io_context first(a, block);
  std::byte* const mine = out + blockIdx.x * 4 * piece;
  std::int64_t got[4] = {};
  {
    io_context second(b, block);
    std::int64_t const at = std::int64_t(blockIdx.x) * piece;
    got[0] = gread(first, fd_a, mine, piece, at);
    got[1] = gread(second, fd_b, mine + piece, piece, at);
    got[2] = gread(first, fd_a, mine + 2 * piece, piece, at + 1);
  }
  io_context third(b, block);
  got[3] = gread(third, fd_b, mine + 3 * piece, piece, std::int64_t(blockIdx.x) * piece + 1);
  if (threadIdx.x == 0) {
    for (int i = 0; i < 4; ++i) results[4 * blockIdx.x + i] = got[i];
  }
}

// The block and each of its tiles have contexts at the same time. Tiles read at their own pace, the
// last tile twice as often.
__global__ void read_by_block_and_tiles(fs_ref fs, int fd, std::byte* out, std::int64_t* results) {
  auto const block = cg::this_thread_block();
  auto const tile = cg::tiled_partition<32>(block);
  io_context whole(fs, block);
  io_context part(fs, tile);
  unsigned const tiles = blockDim.x / 32;
  unsigned const each = tiles + 2;
  std::byte* const mine = out + blockIdx.x * each * piece;
  std::int64_t* const got = results + blockIdx.x * each;
  std::int64_t const at = std::int64_t(blockIdx.x) * each * piece;
  std::int64_t n = gread(whole, fd, mine, piece, at);
  if (threadIdx.x == 0) got[0] = n;
  unsigned const t = threadIdx.x / 32 + 1;
  for (unsigned again = 0; again < (t == tiles ? 2u : 1u); ++again)
    n = gread(part, fd, mine + t * piece, piece, at + t * std::int64_t(piece));
  if (tile.thread_rank() == 0) got[t] = n;
  __syncthreads();
  n = gread(whole, fd, mine + (tiles + 1) * piece, piece, at + (tiles + 1) * std::int64_t(piece));
  if (threadIdx.x == 0) got[tiles + 1] = n;
}

__global__ void make_context(fs_ref fs, std::int32_t* seat) {
  io_context const io(fs, cg::this_thread_block());
  if (threadIdx.x == 0) *seat = io.seat();
}

__global__ void make_contexts_of_tiles(fs_ref fs, std::int32_t* seats) {
  auto const tile = cg::tiled_partition<16>(cg::this_thread_block());
  io_context const io(fs, tile);
  seats[threadIdx.x] = io.seat();
}

__global__ void set_claimed(fs_ref fs, std::uint32_t count) {
  atomic_ref<std::uint32_t>(*fs.seats.claimed).store(count, memory_order_relaxed);
}

__global__ void claim_all_but(fs_ref fs, std::uint32_t free) {
  for (std::uint32_t i = 0; i < fs.seats.count; ++i)
    atomic_ref<std::uint32_t>(fs.seats.states[i]).store(i == free ? 0 : 1, memory_order_relaxed);
  atomic_ref<std::uint32_t>(*fs.seats.claimed).store(fs.seats.count - 1, memory_order_relaxed);
}

// Claims and gives back a context over and over; counts those that had a seat and those that had
// none.
__global__ void make_contexts(fs_ref fs, int fd, unsigned rounds, std::byte* out,
                              std::uint32_t* holders, std::uint64_t* counts) {
  auto const block = cg::this_thread_block();
  for (unsigned i = 0; i < rounds; ++i) {
    io_context io(fs, block);
    ssize_t const n = gread(io, fd, out + blockIdx.x * 64, 64, std::int64_t(i) * 64);
    if (threadIdx.x == 0) {
      if (io.seat() >= 0) {
        atomic_ref<std::uint32_t> holder(holders[io.seat()]);
        if (holder.fetch_add(1, memory_order_relaxed) != 0)
          atomic_ref<std::uint64_t>(counts[2]).fetch_add(1, memory_order_relaxed);
        holder.fetch_sub(1, memory_order_relaxed);
      }
      atomic_ref<std::uint64_t>(counts[io.seat() >= 0 ? 0 : 1]).fetch_add(1, memory_order_relaxed);
      if (n != 64) atomic_ref<std::uint64_t>(counts[3]).fetch_add(1, memory_order_relaxed);
    }
  }
}

// Reads the whole file as pieces, block b those with number b modulo the blocks, once `other` says
// that it has begun, too.
__global__ void read_beside(fs_ref fs, int fd, std::uint32_t pieces, std::uint32_t* mine,
                            std::uint32_t* other, std::byte* out, std::uint64_t* short_reads) {
  auto const block = cg::this_thread_block();
  io_context io(fs, block);
  if (threadIdx.x == 0) {
    atomic_ref<std::uint32_t, scope::device>(*mine).store(1, memory_order_release);
    wait_for(*other, 1);
  }
  __syncthreads();
  for (std::uint32_t i = blockIdx.x; i < pieces; i += gridDim.x) {
    ssize_t const n = gread(io, fd, out + i * piece, piece, std::int64_t(i) * piece);
    if (threadIdx.x == 0 && n != ssize_t(piece))
      atomic_ref<std::uint64_t>(*short_reads).fetch_add(1, memory_order_relaxed);
  }
}

bool equal_at(std::vector<std::byte> const& out, std::uint64_t place,
              std::vector<std::byte> const& file, std::uint64_t offset) {
  return std::equal(out.begin() + std::ptrdiff_t(place),
                    out.begin() + std::ptrdiff_t(place + piece),
                    file.begin() + std::ptrdiff_t(offset));
}

}  // namespace

TEST_CASE("contexts: far more blocks than can be resident all read what they want") {
  scratch_folder folder;
  auto const path = make_file(folder, "file", 300'000);
  auto c = small_config(512, 32);
  c.seats = 5000;
  filesystem fs(c);
  int const fd = fs.open(path, O_RDONLY);
  unsigned const threads = scaled(256, 64);
  unsigned const blocks = 9 * current_device().multiprocessors;  // of 2048 threads at most
  read_batch batch;
  for (unsigned i = 0; i < blocks; ++i) batch.add(fd, path, i * 2311 % 299'000, 900, i % 64);
  batch.run(fs.ref(), blocks, threads);
  CHECK(batch.problems() == "");
  CHECK(inspect(fs.ref()).problems == "");
}

TEST_CASE(
    "contexts: those without a seat read as those with one, whatever the policy and with "
    "readahead") {
  scratch_folder folder;
  auto const path = make_file(folder, "file", 200'000);
  for (auto const policy : {replacement::lra, replacement::fifo, replacement::clock}) {
    for (std::uint64_t const prefetch :
         {std::uint64_t{0}, std::uint64_t{16384}, prefetch_automatic}) {
      auto c = small_config(4096, 16);
      c.policy = policy;
      c.prefetch_size = prefetch;
      c.seats = 2;
      filesystem fs(c);
      int const fd = fs.open(path, O_RDONLY);
      read_batch batch;
      for (unsigned i = 0; i < 60; ++i) batch.add(fd, path, i * 3000, 5000, i % 64);
      CAPTURE(int(policy));
      CAPTURE(prefetch);
      batch.run(fs.ref(), 12, 64);
      CHECK(batch.problems() == "");
      batch.run(fs.ref(), 4, 96, caller_kind::tile);
      CHECK(batch.problems() == "");
      CHECK(inspect(fs.ref()).problems == "");
    }
  }
}

TEST_CASE("contexts: no two hold one seat at a time, none waits for one, and all are given back") {
  scratch_folder folder;
  auto const path = make_file(folder, "file", 64'000);
  auto c = small_config(512, 16);
  c.seats = 3;
  filesystem fs(c);
  int const fd = fs.open(path, O_RDONLY);
  constexpr unsigned blocks = 8, rounds = 100;
  buffer<std::byte> out(blocks * 64);
  auto const holders = zeroed<std::uint32_t>(c.seats);
  auto const counts = zeroed<std::uint64_t>(4);
  launch(make_contexts, blocks, 64, fs.ref(), fd, rounds, out.data(), holders.data(),
         counts.data());
  this_thread_stream().synchronize();
  auto const n = contents(counts);
  CHECK(n[0] + n[1] == blocks * rounds);
  CHECK(n[0] > 0);
  CHECK(n[2] == 0);
  CHECK(n[3] == 0);
  CHECK(inspect(fs.ref()).problems == "");
}

TEST_CASE("contexts: one that finds all seats claimed looks at none of them") {
  auto c = small_config(512, 16);
  c.seats = 1000;
  filesystem fs(c);
  auto const ref = fs.ref();
  auto const seat_of_next = [&] {
    auto const seat = zeroed<std::int32_t>(1);
    launch(make_context, 1, 32, ref, seat.data());
    this_thread_stream().synchronize();
    return contents(seat)[0];
  };
  // The count says that all are claimed, and the states that all are free.
  launch(set_claimed, 1, 1, ref, c.seats);
  CHECK(seat_of_next() == -1);
  launch(set_claimed, 1, 1, ref, 0u);
  CHECK(seat_of_next() >= 0);
}

TEST_CASE("contexts: tiles of 16 threads have no seats, and leave all to others") {
  auto c = small_config(512, 16);
  c.seats = 4;
  filesystem fs(c);
  auto const tile_seats = zeroed<std::int32_t>(64);
  for (int i = 0; i < 3; ++i) launch(make_contexts_of_tiles, 1, 64, fs.ref(), tile_seats.data());
  this_thread_stream().synchronize();
  for (auto const seat : contents(tile_seats)) CHECK(seat == -1);
  auto const seat = zeroed<std::int32_t>(1);
  launch(make_context, 1, 32, fs.ref(), seat.data());
  this_thread_stream().synchronize();
  CHECK(contents(seat)[0] >= 0);
  CHECK(inspect(fs.ref()).problems == "");
}

TEST_CASE("contexts: the last free seat is found, wherever it is") {
  auto c = small_config(512, 16);
  c.seats = 100;
  filesystem fs(c);
  auto const ref = fs.ref();
  for (std::uint32_t const free : {0u, 1u, 57u, 99u}) {
    CAPTURE(free);
    auto const seat = zeroed<std::int32_t>(1);
    launch(claim_all_but, 1, 1, ref, free);
    launch(make_context, 1, 32, ref, seat.data());
    this_thread_stream().synchronize();
    CHECK(contents(seat)[0] == std::int32_t(free));
  }
}

TEST_CASE(
    "contexts: a block may have two of one filesystem, and one each of two, and use them in turn") {
  scratch_folder folder;
  auto const path_a = make_file(folder, "a", 40'000, 1);
  auto const path_b = make_file(folder, "b", 40'000, 2);
  auto const file_a = pread_bytes(path_a, 0, 40'000);
  auto const file_b = pread_bytes(path_b, 0, 40'000);
  for (bool const same : {true, false}) {
    for (std::uint64_t const page : {512, 65536}) {
      filesystem a(small_config(page, 8));
      filesystem b(small_config(4096, 8));
      filesystem& second = same ? a : b;
      constexpr unsigned blocks = 8;
      buffer<std::byte> out(blocks * 4 * piece);
      auto const results = zeroed<std::int64_t>(blocks * 4);
      launch(read_through_two_contexts, blocks, 64, a.ref(), a.open(path_a, O_RDONLY), second.ref(),
             second.open(path_b, O_RDONLY), out.data(), results.data());
      this_thread_stream().synchronize();
      CHECK(contents(results) == std::vector<std::int64_t>(blocks * 4, piece));
      auto const bytes = contents(out);
      for (unsigned i = 0; i < blocks * 4; ++i) {
        CAPTURE(i);
        CHECK(equal_at(bytes, i * piece, i % 2 == 0 ? file_a : file_b, i / 4 * piece + i % 4 / 2));
      }
      CHECK(inspect(a.ref()).problems == "");
      CHECK(inspect(b.ref()).problems == "");
    }
  }
}

TEST_CASE(
    "contexts: a block and its tiles can have contexts at the same time, each tile reading at its "
    "own pace") {
  scratch_folder folder;
  constexpr unsigned blocks = 4, threads = 96, pieces = blocks * (threads / 32 + 2);
  auto const path = make_file(folder, "file", pieces * piece);
  auto const file = pread_bytes(path, 0, pieces * piece);
  for (std::uint64_t const page : {512, 4096, 65536}) {
    for (std::uint32_t const seats : {1u, 64u}) {
      auto c = small_config(page, 8);
      c.seats = seats;
      filesystem fs(c);
      buffer<std::byte> out(pieces * piece);
      auto const results = zeroed<std::int64_t>(pieces);
      launch(read_by_block_and_tiles, blocks, threads, fs.ref(), fs.open(path, O_RDONLY),
             out.data(), results.data());
      this_thread_stream().synchronize();
      CHECK(contents(results) == std::vector<std::int64_t>(pieces, piece));
      CHECK(contents(out) == file);
      CHECK(inspect(fs.ref()).problems == "");
    }
  }
}

TEST_CASE("contexts: two kernels in two streams read through one filesystem at once") {
  scratch_folder folder;
  constexpr std::uint32_t pieces = 60;
  auto const path = make_file(folder, "file", pieces * piece);
  auto const file = pread_bytes(path, 0, pieces * piece);
  for (auto const policy : {replacement::lra, replacement::fifo, replacement::clock}) {
    auto c = small_config(512, 24);
    c.policy = policy;
    filesystem fs(c);
    int const fd = fs.open(path, O_RDONLY);
    constexpr unsigned blocks = scaled(4, 3);
    auto const begun = zeroed<std::uint32_t>(2);
    auto const short_reads = zeroed<std::uint64_t>(1);
    buffer<std::byte> out_a(file.size()), out_b(file.size());
    stream a, b;
    launch(launch_options{.grid = blocks, .block = 64, .on = &a}, read_beside, fs.ref(), fd, pieces,
           begun.data(), begun.data() + 1, out_a.data(), short_reads.data());
    launch(launch_options{.grid = blocks, .block = 64, .on = &b}, read_beside, fs.ref(), fd, pieces,
           begun.data() + 1, begun.data(), out_b.data(), short_reads.data());
    a.synchronize();
    b.synchronize();
    CHECK(contents(short_reads)[0] == 0);
    CHECK(contents(out_a) == file);
    CHECK(contents(out_b) == file);
    CHECK(inspect(fs.ref()).problems == "");
  }
}

TEST_CASE("contexts: two filesystems with different settings do not touch each other") {
  scratch_folder folder;
  auto const path = make_file(folder, "file", 100'000);
  filesystem a(small_config(512, 16));
  auto c = small_config(65536, 8);
  c.policy = replacement::clock;
  c.prefetch_size = prefetch_automatic;
  filesystem b(c);
  stream on_a, on_b;
  read_batch batch_a, batch_b;
  int const fd_a = a.open(path, O_RDONLY);
  int const fd_b = b.open(path, O_RDONLY);
  for (unsigned i = 0; i < 40; ++i) {
    batch_a.add(fd_a, path, i * 2000, 3000, i);
    batch_b.add(fd_b, path, i * 2000 + 7, 3000, i);
  }
  batch_a.start(a.ref(), 4, 64, caller_kind::block, &on_a);
  batch_b.start(b.ref(), 4, 64, caller_kind::block, &on_b);
  batch_a.finish(&on_a);
  batch_b.finish(&on_b);
  CHECK(batch_a.problems() == "");
  CHECK(batch_b.problems() == "");
  CHECK(a.stats().bytes_delivered == batch_a.bytes_expected());
  CHECK(b.stats().bytes_delivered == batch_b.bytes_expected());
}
