// Few frames for many callers: every call succeeds while all let go of their pages, in whatever
// order they come. On a GPU the cases have the sizes that once failed, and print their times.
#include <gpufs/gpufs.hpp>

#if defined(GPUFS_EMULATED)
#include <gpufs/device/emulated/settings.hpp>
#endif

#include <test/support/cache_state.hpp>
#include <test/support/faults.hpp>
#include <test/support/files.hpp>
#include <test/support/settings.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace cg = cooperative_groups;
using namespace gpufs;
using namespace gpufs::test;

namespace {

#if defined(GPUFS_EMULATED)
inline constexpr bool on_gpu = false;
#else
inline constexpr bool on_gpu = true;
#endif

/// `large` on a GPU, `small` on the emulated device.
inline constexpr unsigned sized(unsigned large, unsigned small) { return on_gpu ? large : small; }

// Element i of a file: the one that it has at first, or the one that the kernels write.
__host__ __device__ inline std::uint32_t element(std::uint64_t i, bool written) {
  return static_cast<std::uint32_t>(base::mix64(2 * i + (written ? 1 : 0)));
}

// A file of `elements` elements, none of them written.
std::string file_of(scratch_folder const& folder, std::string const& name, std::uint64_t elements) {
  std::vector<std::uint32_t> all(elements);
  for (std::uint64_t i = 0; i < elements; ++i) all[i] = element(i, false);
  std::vector<std::byte> bytes(elements * 4);
  std::memcpy(bytes.data(), all.data(), bytes.size());
  write_bytes(folder / name, bytes);
  return folder / name;
}

// How many elements of the file are neither as they were nor as the kernels write them.
std::uint64_t foreign_elements(std::string const& path, std::uint64_t elements) {
  auto const bytes = pread_bytes(path, 0, elements * 4 + 1);
  if (bytes.size() != elements * 4) return elements;
  std::uint64_t foreign = 0;
  for (std::uint64_t i = 0; i < elements; ++i) {
    std::uint32_t e = 0;
    std::memcpy(&e, bytes.data() + 4 * i, 4);
    foreign += e != element(i, false) && e != element(i, true) ? 1 : 0;
  }
  return foreign;
}

// What went wrong in a kernel.
struct watch {
  unsigned long long failed_calls;
  unsigned long long wrong_elements;
  long long error;  ///< of one of the failed calls
};

__device__ void note_failure(watch* w, long long error) {
  atomicAdd(&w->failed_calls, 1ull);
  w->error = error;
}

__device__ void note_element(watch* w, std::uint32_t got, std::uint64_t i) {
  if (got != element(i, false) && got != element(i, true)) atomicAdd(&w->wrong_elements, 1ull);
}

struct job {
  fs_ref fs;
  std::int32_t fd;         ///< O_RDWR
  std::int32_t read_only;  ///< another file, or -1
  std::uint64_t elements;  ///< of each file
  std::uint32_t* scratch;  ///< piece_elements per tile
  watch* seen;
  unsigned rounds;
  std::uint64_t seed;
};

inline constexpr unsigned piece_elements = 25;

template <class Tile>
__device__ void read_piece(job const& j, io_context<Tile>& io, std::uint32_t* mine,
                           std::uint64_t at) {
  ssize_t const n = gread(io, j.fd, mine, piece_elements * 4, std::int64_t(at * 4));
  if (n != ssize_t(piece_elements * 4)) {
    if (io.group().thread_rank() == 0) note_failure(j.seen, n);
    return;
  }
  if (io.group().thread_rank() < piece_elements)
    note_element(j.seen, mine[io.group().thread_rank()], at + io.group().thread_rank());
  io.group().sync();
}

// Writes a piece and reads it again: no other bytes are ever written there.
template <class Tile>
__device__ void write_piece(job const& j, io_context<Tile>& io, std::uint32_t* mine,
                            std::uint64_t at, bool reads_again) {
  unsigned const lane = unsigned(io.group().thread_rank());
  if (lane < piece_elements) mine[lane] = element(at + lane, true);
  ssize_t n = gwrite(io, j.fd, mine, piece_elements * 4, std::int64_t(at * 4));
  if (n == ssize_t(piece_elements * 4) && reads_again) {
    n = gread(io, j.fd, mine, piece_elements * 4, std::int64_t(at * 4));
    if (lane < piece_elements && mine[lane] != element(at + lane, true))
      atomicAdd(&j.seen->wrong_elements, 1ull);
    io.group().sync();
  }
  if (n != ssize_t(piece_elements * 4) && lane == 0) note_failure(j.seen, n);
}

enum class work { read, write };

// Each tile reads or writes pieces at random places.
__global__ void __launch_bounds__(512) touch_pieces(job const j, work what) {
  auto const tile = cg::tiled_partition<32>(cg::this_thread_block());
  io_context io(j.fs, tile);
  unsigned const number = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
  std::uint32_t* const mine = j.scratch + number * piece_elements;
  for (unsigned i = 0; i < j.rounds; ++i) {
    std::uint64_t const at =
        base::mix64(j.seed + (std::uint64_t(number) << 20 | i)) % (j.elements - piece_elements);
    if (what == work::read) {
      read_piece(j, io, mine, at);
    } else {
      write_piece(j, io, mine, at, false);
    }
  }
}

// Loads elements at random places. Each thread calls, with its array.
__device__ void gather_from(job const& j, array<std::uint32_t const> const& a) {
  std::uint64_t const thread = std::uint64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  for (unsigned i = 0; i < j.rounds; ++i) {
    std::uint64_t const at = base::mix64(j.seed + (thread << 20 | i)) % j.elements;
    std::uint32_t const got = a[at];
    if (a.error() == 0) note_element(j.seen, got, at);
  }
  if (a.error() != 0) note_failure(j.seen, a.error());
}

// Each thread loads elements at random places.
__global__ void __launch_bounds__(512) gather(job const j) {
  io_context io(j.fs, cg::this_thread_block());
  array<std::uint32_t const> const a(io, j.read_only);
  gather_from(j, a);
}

// The same from two files, half of each warp's lanes from each.
__global__ void __launch_bounds__(512) gather_from_two(job const j) {
  io_context io(j.fs, cg::this_thread_block());
  array<std::uint32_t const> const one(io, j.read_only);
  array<std::uint32_t const> const other(io, j.fd);
  gather_from(j, threadIdx.x % 2 == 0 ? one : other);
}

// All kinds of holders at once. The tile's number says what it does. Tiles that hold pages between
// calls are few, and their lanes share a page.
__global__ void __launch_bounds__(512) mixed(job const j) {
  auto const tile = cg::tiled_partition<32>(cg::this_thread_block());
  io_context io(j.fs, tile);
  unsigned const number = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
  std::uint32_t* const mine = j.scratch + number * piece_elements;
  std::uint64_t const per_page = (1ull << j.fs.cache.page_shift) / 4;
  for (unsigned i = 0; i < j.rounds; ++i) {
    std::uint64_t const random = base::mix64(j.seed + (std::uint64_t(number) << 20 | i));
    std::uint64_t const at = random % (j.elements - piece_elements);
    std::uint64_t const page = at / per_page;
    if (number == 1) {
      array<std::uint32_t const> const a(io, j.read_only);
      auto const held = a.pointer(page * per_page);
      for (unsigned k = 0; k < 4; ++k)
        note_element(j.seen, held[(tile.thread_rank() + 7 * k) % per_page],
                     page * per_page + (tile.thread_rank() + 7 * k) % per_page);
      if (a.error() != 0 || held.error() != 0) note_failure(j.seen, held.error());
    } else if (number == 2) {
      void* address = nullptr;
      ssize_t const n = gmmap(io, j.read_only, 4, std::int64_t(at * 4), PROT_READ, &address);
      if (n > 0) {
        if (tile.thread_rank() == 0)
          note_element(j.seen, *static_cast<std::uint32_t const*>(address), at);
        gmunmap(io, address);
      } else if (tile.thread_rank() == 0) {
        note_failure(j.seen, n);
      }
    } else if (number % 4 == 0) {
      read_piece(j, io, mine, at);
    } else if (number % 4 == 1) {
      write_piece(j, io, mine, at, true);
    } else if (number % 4 == 2) {
      array<std::uint32_t const> const a(io, j.read_only);
      std::uint64_t const own = base::mix64(random + tile.thread_rank()) % j.elements;
      std::uint32_t const got = a[own];
      if (a.error() == 0) note_element(j.seen, got, own);
      if (a.error() != 0) note_failure(j.seen, a.error());
    } else {
      array<std::uint32_t> const a(io, j.fd);
      std::uint64_t const own = base::mix64(random + tile.thread_rank()) % j.elements;
      a[own] = element(own, true);
      std::uint32_t const got = a[own];
      if (a.error() == 0 && got != element(own, true)) atomicAdd(&j.seen->wrong_elements, 1ull);
      if (a.error() != 0) note_failure(j.seen, a.error());
    }
  }
}

// One block maps `pages` pages of a file one after the other, then unmaps them. Returns how many
// were mapped.
__global__ void map_all(fs_ref fs, std::int32_t fd, unsigned pages, void** address,
                        unsigned* mapped) {
  auto const block = cg::this_thread_block();
  io_context io(fs, block);
  unsigned n = 0;
  void* at = nullptr;
  while (n < pages &&
         gmmap(io, fd, 4, std::int64_t(n) << fs.cache.page_shift, PROT_READ, &at) > 0) {
    if (threadIdx.x == 0) address[n] = at;
    ++n;
  }
  __syncthreads();
  for (unsigned i = 0; i < n; ++i) gmunmap(io, address[i]);
  if (threadIdx.x == 0) *mapped = n;
}

// Each block writes its pages in full.
__global__ void write_pages(fs_ref fs, std::int32_t fd, unsigned pages, std::byte* bytes) {
  auto const block = cg::this_thread_block();
  io_context io(fs, block);
  std::uint64_t const page = 1ull << fs.cache.page_shift;
  for (unsigned i = blockIdx.x; i < pages; i += gridDim.x)
    static_cast<void>(gwrite(io, fd, bytes + blockIdx.x * page, page, std::int64_t(i * page)));
}

// Every thread passes through the line once and notes when it was in front.
__global__ void pass_line(cache::line* line, std::uint32_t* order, std::uint32_t* noted) {
  // On the GPU, lanes that join together also leave the loop of join_line() together.
  if (lane_id() != 0) return;
  std::uint32_t const turn = cache::join_line(*line);
  order[atomicAdd(noted, 1u)] = turn;
  cache::leave_line(*line, turn, true);
}

// Reads the pages one after the other.
__global__ void read_pages(fs_ref fs, std::int32_t fd, unsigned pages, std::byte* to) {
  auto const block = cg::this_thread_block();
  io_context io(fs, block);
  std::uint64_t const page = 1ull << fs.cache.page_shift;
  for (unsigned i = 0; i < pages; ++i)
    static_cast<void>(gread(io, fd, to, page, std::int64_t(i * page)));
}

// In each tile, `lanes` lanes hold a page each at the same time. No page is read twice.
__global__ void hold_pages(job const j, unsigned lanes) {
  auto const tile = cg::tiled_partition<32>(cg::this_thread_block());
  io_context io(j.fs, tile);
  unsigned const tiles = gridDim.x * blockDim.x / 32;
  unsigned const number = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
  std::uint64_t const per_page = (1ull << j.fs.cache.page_shift) / 4;
  array<std::uint32_t const> const a(io, j.read_only);
  for (unsigned i = 0; i < j.rounds; ++i) {
    if (tile.thread_rank() < lanes) {
      std::uint64_t const at =
          ((std::uint64_t(i) * tiles + number) * lanes + tile.thread_rank()) * per_page;
      auto const held = a.pointer(at);
      std::uint32_t const got = *held;
      if (held.error() == 0) note_element(j.seen, got, at);
      if (held.error() != 0) note_failure(j.seen, held.error());
    }
    tile.sync();
  }
}

// The first block maps all frames but one until each of the others has read an element of a page of
// its own.
__global__ void read_through_one_frame(job const j, std::uint32_t* flag) {
  io_context io(j.fs, cg::this_thread_block());
  atomic_ref<std::uint32_t> const mapped(flag[0]), done(flag[1]);
  std::int64_t const page_bytes = 1ll << j.fs.cache.page_shift;
  auto const wait_for = [&](atomic_ref<std::uint32_t> const& word, std::uint32_t value) {
    for (unsigned pause = 0; threadIdx.x == 0 && word.load(gpufs::memory_order_acquire) != value;)
      backoff(pause);
    __syncthreads();
  };
  if (blockIdx.x == 0) {
    unsigned const pages = j.fs.cache.frame_count - 1;
    void* address[16] = {};
    for (unsigned i = 0; i < pages; ++i) {
      ssize_t const n = gmmap(io, j.fd, 4, (gridDim.x + i) * page_bytes, PROT_READ, &address[i]);
      if (n <= 0 && threadIdx.x == 0) note_failure(j.seen, n);
    }
    if (threadIdx.x == 0) mapped.store(1, gpufs::memory_order_release);
    wait_for(done, gridDim.x - 1);
    for (unsigned i = 0; i < pages; ++i) gmunmap(io, address[i]);
    return;
  }
  wait_for(mapped, 1);
  __shared__ std::uint32_t got;
  ssize_t const n = gread(io, j.fd, &got, 4, blockIdx.x * page_bytes);
  // No early return of some threads: the context ends for all of them together.
  if (threadIdx.x == 0) {
    if (n != 4) note_failure(j.seen, n);
    if (n == 4) note_element(j.seen, got, blockIdx.x * std::uint64_t(page_bytes) / 4);
    done.fetch_add(1, gpufs::memory_order_release);
  }
}

struct grid {
  unsigned blocks;
  unsigned threads;
};

// Runs a kernel with a job on the two files and returns what the watch saw; `seconds` gets the
// kernel's time.
template <class Kernel, class... Argument>
watch run(filesystem& fs, grid const& g, int fd, int read_only, std::uint64_t elements,
          unsigned rounds, std::uint64_t seed, double& seconds, Kernel kernel,
          Argument... argument) {
  buffer<std::uint32_t> scratch(std::size_t(g.blocks) * g.threads / 32 * piece_elements);
  buffer<watch> seen(1);
  seen.fill_zero();
  job const j{fs.ref(), fd, read_only, elements, scratch.data(), seen.data(), rounds, seed};
  auto const start = std::chrono::steady_clock::now();
  launch(kernel, g.blocks, g.threads, j, argument...);
  this_thread_stream().synchronize();
  seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  watch w{};
  seen.copy_to_host(&w, 1);
  return w;
}

config contended(std::uint64_t page, std::uint64_t frames) {
  auto c = small_config(page, frames);
  c.staging_size = std::max<std::uint64_t>(page * sized(4096, 64), 1 << 20);
  c.host_threads = on_gpu ? 0 : 2;
  c.seats = 1024;
  if (on_gpu) c.rpc_timeout_ms = 10'000;
  return c;
}

double touch(config const& c, grid const& g, std::uint64_t bytes, unsigned rounds, work what) {
  scratch_folder folder;
  auto const path = file_of(folder, "file", bytes / 4);
  double seconds = 0;
  {
    filesystem fs(c);
    int const fd = fs.open(path, O_RDWR);
    watch const w = run(fs, g, fd, -1, bytes / 4, rounds, 1, seconds, touch_pieces, what);
    CAPTURE(w.error);
    CHECK(w.failed_calls == 0);
    CHECK(w.wrong_elements == 0);
    CHECK(fs.close(fd) == 0);
    CHECK(inspect(fs.ref()).problems == "");
  }
  CHECK(foreign_elements(path, bytes / 4) == 0);
  if (on_gpu)
    std::printf("%u x %u threads, %llu frames of %llu bytes, %s: %.3f s\n", g.blocks, g.threads,
                static_cast<unsigned long long>(c.cache_size / c.page_size),
                static_cast<unsigned long long>(c.page_size),
                what == work::read ? "reading" : "writing", seconds);
  return seconds;
}

}  // namespace

namespace {

// Writes `pages` pages with all the write buffers that there are, closes and deletes the file.
void write_and_delete(filesystem& fs, scratch_folder const& folder, unsigned pages) {
  auto const path = folder / "written";
  int const fd = fs.open(path, O_RDWR | O_CREAT);
  buffer<std::byte> bytes(2 << 12);
  bytes.fill_zero();
  launch(write_pages, 2, 64, fs.ref(), fd, pages, bytes.data());
  this_thread_stream().synchronize();
  CHECK(fs.close(fd) == 0);
  CHECK(::unlink(path.c_str()) == 0);
}

}  // namespace

TEST_CASE("few_frames: a line serves callers in their order, but for those in front") {
  // The numbers of turns begin again at 0 on the way.
  std::uint32_t const start = cache::turn_mask - 20;
  cache::line const at_start{
      std::uint64_t(start) << cache::joined_shift | std::uint64_t(start) << cache::left_shift, 0};
  grid const g{sized(64, 4), sized(1024, scaled(512, 256))};
  std::uint32_t const callers = g.blocks * g.threads / base::warp_size;
  buffer<cache::line> line(1);
  line.copy_from_host(&at_start, 1);
  buffer<std::uint32_t> order(callers);
  buffer<std::uint32_t> noted(1);
  noted.fill_zero();
  launch(pass_line, g.blocks, g.threads, line.data(), order.data(), noted.data());
  this_thread_stream().synchronize();
  std::vector<std::uint32_t> turns(callers);
  order.copy_to_host(turns.data(), callers);
  std::vector<unsigned> seen(callers);
  std::uint32_t farthest = 0;
  for (std::uint32_t i = 0; i < callers; ++i) {
    std::uint32_t const turn = (turns[i] - start) & cache::turn_mask;
    REQUIRE(turn < callers);
    ++seen[turn];
    farthest = std::max(farthest, turn > i ? turn - i : i - turn);
  }
  CHECK(std::ranges::count(seen, 1u) == std::ptrdiff_t(callers));
  CHECK(farthest < cache::front_turns);
  cache::line at_end{};
  line.copy_to_host(&at_end, 1);
  std::uint64_t const end = (start + callers) & cache::turn_mask;
  CHECK(at_end.state == (end << cache::joined_shift | end << cache::left_shift));
}

TEST_CASE("few_frames: all frames can be mapped after a file was written, closed and deleted") {
  scratch_folder folder;
  auto c = contended(4096, 8);
  c.rpc_timeout_ms = 30'000;
  filesystem fs(c);
  write_and_delete(fs, folder, 16);
  int const fd = fs.open(file_of(folder, "read", 8 * 1024), O_RDONLY);
  buffer<void*> addresses(8);
  buffer<unsigned> mapped(1);
  launch(map_all, 1, 64, fs.ref(), fd, 8u, addresses.data(), mapped.data());
  this_thread_stream().synchronize();
  unsigned n = 0;
  mapped.copy_to_host(&n, 1);
  CHECK(n == 8);
  CHECK(inspect(fs.ref()).problems == "");
}

TEST_CASE("few_frames: a file as large as the cache stays cached after another was written") {
  for (auto const policy : {replacement::lra, replacement::fifo, replacement::clock}) {
    scratch_folder folder;
    auto c = contended(4096, 64);
    c.policy = policy;
    filesystem fs(c);
    write_and_delete(fs, folder, 64);
    unsigned const pages = 48;
    int const fd = fs.open(file_of(folder, "read", pages * 1024), O_RDONLY);
    buffer<std::byte> to(4096);
    std::uint64_t misses[2];
    for (auto& m : misses) {
      auto const before = fs.stats();
      launch(read_pages, 1, 64, fs.ref(), fd, pages, to.data());
      this_thread_stream().synchronize();
      m = (fs.stats() - before).misses;
    }
    CHECK(misses[0] == pages);
    CHECK(misses[1] == 0);
  }
}

TEST_CASE("few_frames: tiles read and write, 16 frames of 4 KiB") {
  grid const g{sized(93, scaled(8, 4)), sized(512, scaled(128, 64))};
  unsigned const rounds = sized(64, scaled(8, 3));
  for (auto const what : {work::read, work::write}) {
    for (auto const path : {io_path::automatic, io_path::dma}) {
      auto c = contended(4096, 16);
      c.path = path;
      touch(c, g, 4 << 20, rounds, what);
    }
  }
  // For comparison of the times.
  if (on_gpu) {
    touch(contended(4096, 1024), g, 4 << 20, rounds, work::read);
    touch(contended(4096, 1024), g, 4 << 20, rounds, work::write);
  }
}

TEST_CASE("few_frames: tiles write, 16 frames of 64 KiB") {
  touch(contended(64 << 10, 16), {sized(127, scaled(6, 4)), sized(256, 64)}, sized(64, 4) << 20,
        sized(32, 3), work::write);
}

TEST_CASE("few_frames: tiles read from file windows, 32 frames of 4 KiB") {
  auto c = contended(4096, 32);
  c.path = io_path::registered;
  c.file_window_size = 1 << 20;
  touch(c, {sized(14, scaled(8, 4)), sized(512, scaled(128, 64))}, 4 << 20, sized(64, 8),
        work::read);
}

TEST_CASE("few_frames: threads gather elements from a file twice the cache, 64 KiB pages") {
  scratch_folder folder;
  std::uint64_t const bytes = std::uint64_t(sized(256, 4)) << 20;
  auto const path = file_of(folder, "file", bytes / 4);
  auto c = contended(64 << 10, bytes / 2 >> 16);
  c.write_memory = 0;
  filesystem fs(c);
  int const fd = fs.open(path, O_RDONLY);
  double seconds = 0;
  grid const g{sized(1056, scaled(8, 4)), sized(256, 64)};
  unsigned const rounds = sized(4, scaled(3, 1));
  watch const w = run(fs, g, -1, fd, bytes / 4, rounds, 1, seconds, gather);
  CAPTURE(w.error);
  CHECK(w.failed_calls == 0);
  CHECK(w.wrong_elements == 0);
  CHECK(inspect(fs.ref()).problems == "");
  if (on_gpu)
    std::printf("%u x %u threads gather: %.3f M elements/s\n", g.blocks, g.threads,
                double(g.blocks) * g.threads * rounds / seconds / 1e6);
}

TEST_CASE("few_frames: lanes of a warp gather from two files, 16 frames") {
  scratch_folder folder;
  std::uint64_t const elements = 64 << 10;
  filesystem fs(contended(4096, 16));
  int const one = fs.open(file_of(folder, "one", elements), O_RDONLY);
  int const other = fs.open(file_of(folder, "other", elements), O_RDONLY);
  double seconds = 0;
  watch const w = run(fs, {sized(128, scaled(8, 4)), sized(256, 64)}, other, one, elements,
                      sized(16, scaled(3, 1)), 1, seconds, gather_from_two);
  CAPTURE(w.error);
  CHECK(w.failed_calls == 0);
  CHECK(w.wrong_elements == 0);
  CHECK(inspect(fs.ref()).problems == "");
}

TEST_CASE("few_frames: warps that each hold more than half of the frames") {
#if defined(GPUFS_EMULATED)
  auto const before = emulated::current_settings();
  auto whole = before;
  whole.split = 0;
  emulated::configure(whole);
#endif
  unsigned const lanes = 6;
  unsigned const rounds = scaled(8, 3);
  std::uint64_t const elements = 8ull * rounds * lanes * 1024;
  scratch_folder folder;
  auto c = contended(4096, 8);
  c.rpc_timeout_ms = 30'000;
  filesystem fs(c);
  int const fd = fs.open(file_of(folder, "file", elements), O_RDONLY);
  double seconds = 0;
  watch const w = run(fs, {4, 64}, -1, fd, elements, rounds, 1, seconds, hold_pages, lanes);
#if defined(GPUFS_EMULATED)
  emulated::configure(before);
#endif
  CAPTURE(w.error);
  CHECK(w.failed_calls == 0);
  CHECK(w.wrong_elements == 0);
  CHECK(inspect(fs.ref()).problems == "");
}

// The deadline counts from the last caller that was served, not from the beginning of the wait.
TEST_CASE("few_frames: callers wait longer than rpc_timeout as long as others are served") {
  constexpr unsigned callers = 7;
  scratch_folder folder;
  auto c = contended(4096, 8);
  c.rpc_timeout_ms = 800;
  c.path = io_path::pull;
  // Each read through the one frame waits at a gate of its own. All together wait longer than the
  // timeout, but no single one does.
  using clock = std::chrono::steady_clock;
  constexpr std::chrono::milliseconds step{160};
  struct held_reads {
    std::atomic<unsigned> next{0};
    std::shared_ptr<testing::gate> gates[callers];
    held_reads() {
      for (auto& g : gates) g = std::make_shared<testing::gate>();
    }
  };
  auto const held = std::make_shared<held_reads>();
  testing::filesystem fs(c, read_faults([held](std::uint64_t offset, std::uint64_t) {
                           unsigned const i =
                               offset < (callers + 1) * 4096 ? held->next.fetch_add(1) : callers;
                           return i < callers ? testing::fault_action::hold(held->gates[i])
                                              : testing::fault_action::pass();
                         }));
  struct release_at_end {
    held_reads& held;
    ~release_at_end() {
      for (auto& g : held.gates) g->release();
    }
  } const released{*held};  // before fs ends, which waits for the reads
  int const fd = fs.open(file_of(folder, "file", 16 * 1024), O_RDONLY);
  buffer<watch> seen(1);
  seen.fill_zero();
  buffer<std::uint32_t> flag(2);
  flag.fill_zero();
  job const j{fs.ref(), fd, fd, 16 * 1024, nullptr, seen.data(), callers, 1};
  launch(read_through_one_frame, callers + 1, 32, j, flag.data());
  auto const begun = clock::now();
  auto opened = begun;
  clock::duration longest{};
  for (unsigned i = 0; i < callers; ++i) {
    // The read is under way, or its caller has given up.
    wait_until([&] { return held->gates[i]->arrivals() != 0 || this_thread_stream().done(); },
               "a read through the frame");
    auto const end = begun + (i + 1) * step;
    wait_until([&] { return clock::now() >= end; }, "the time to open a gate");
    held->gates[i]->release();
    longest = std::max(longest, clock::now() - opened);
    opened = clock::now();
  }
  this_thread_stream().synchronize();
  longest = std::max(longest, clock::now() - opened);
  watch w{};
  seen.copy_to_host(&w, 1);
  CAPTURE(w.error);
  // If the machine stood still between two reads, nobody was served in time.
  bool const stalled = longest > std::chrono::milliseconds{400};
  CHECK((w.failed_calls == 0 || stalled));
  CHECK(w.wrong_elements == 0);
  CHECK(inspect(fs.ref()).problems == "");
}

TEST_CASE("few_frames: reads, writes, arrays, held pages and mappings together") {
  std::uint64_t const elements = 64 << 10;
  // Lanes that store to 32 pages at once bring each of them in and write another one back. On a GPU
  // the callers in the frame line do so one after the other.
  for (unsigned seed = 1; seed <= sized(2, scaled(4, 1)); ++seed) {
    CAPTURE(seed);
#if defined(GPUFS_EMULATED)
    auto settings = emulated::current_settings();
    ++settings.seed;
    emulated::configure(settings);
#endif
    scratch_folder folder;
    auto const path = file_of(folder, "written", elements);
    {
      filesystem fs(contended(4096, seed % 2 == 0 ? 8 : 16));
      int const fd = fs.open(path, O_RDWR);
      int const read_only = fs.open(file_of(folder, "read", elements), O_RDONLY);
      double seconds = 0;
      watch const w = run(fs, {sized(64, scaled(8, 4)), sized(512, 64)}, fd, read_only, elements,
                          sized(2, scaled(6, 2)), seed, seconds, mixed);
      CAPTURE(w.error);
      CHECK(w.failed_calls == 0);
      CHECK(w.wrong_elements == 0);
      CHECK(fs.close(fd) == 0);
      CHECK(inspect(fs.ref()).problems == "");
    }
    CHECK(foreign_elements(path, elements) == 0);
  }
}
