// held_writer: stores to a held page, of which exactly the stored bytes reach the file, whoever
// holds or writes the page meanwhile.
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

/// An element of `Bytes` bytes, aligned as `Unit`.
template <class Unit, std::size_t Bytes>
struct element {
  Unit unit[Bytes / sizeof(Unit)];
};
template <class Element>
GPUFS_HOST_DEVICE Element element_of(std::uint64_t number) {
  Element e;
  auto* const bytes = reinterpret_cast<unsigned char*>(&e);
  // In 32 bits: of the same in 64 bits, ptxas 13.0 makes code that leaves out one of the additions.
  auto const first = static_cast<std::uint32_t>(number) * 31 + 1;
  for (std::uint32_t b = 0; b < sizeof e; ++b) bytes[b] = static_cast<unsigned char>(first + b * 7);
  return e;
}
template <class Element>
GPUFS_HOST_DEVICE bool same(Element const& a, Element const& b) {
  auto const* const x = reinterpret_cast<unsigned char const*>(&a);
  auto const* const y = reinterpret_cast<unsigned char const*>(&b);
  bool equal = true;
  for (std::size_t i = 0; i < sizeof a; ++i) equal &= x[i] == y[i];
  return equal;
}

/// Each thread stores a run of elements, forwards or backwards, and reads it again.
template <class Element>
__global__ void store_runs(fs_ref fs, int fd, std::int64_t offset, std::uint64_t run, word* wrong) {
  io_context io(fs, cg::this_thread_block());
  std::uint64_t const threads = gridDim.x * blockDim.x;
  array<Element> const a(io, fd, offset, threads * run);
  std::uint64_t const mine = blockIdx.x * blockDim.x + threadIdx.x;
  bool const forwards = threadIdx.x % 2 == 0;
  auto p = a.writer(mine * run + (forwards ? 0 : run - 1));
  for (std::uint64_t k = 0; k < run; ++k) {
    *p = element_of<Element>(p.index());
    forwards ? ++p : --p;
  }
  auto const first = static_cast<std::int64_t>(mine * run - p.index());
  for (std::uint64_t k = 0; k < run; ++k)
    count_if(!same<Element>(p.load(first + std::int64_t(k)), element_of<Element>(mine * run + k)),
             wrong);
  count_if(a.error() != 0 || p.error() != 0, wrong);
}

template <class Element>
void check_runs(std::int64_t offset, std::uint64_t run) {
  CAPTURE(sizeof(Element));
  CAPTURE(offset);
  CAPTURE(run);
  scratch_folder folder;
  constexpr unsigned blocks = 2, threads = scaled(64, 32);
  std::uint64_t const count = blocks * threads * run;
  auto const path = make_file(folder, "file", std::uint64_t(offset) + count * sizeof(Element) + 99);
  auto expected = pread_bytes(path, 0, ~0ull);
  for (std::uint64_t i = 0; i < count; ++i) {
    auto const e = element_of<Element>(i);
    std::memcpy(expected.data() + offset + i * sizeof e, &e, sizeof e);
  }
  filesystem fs(small_config(page, 2 * blocks * threads));
  int const fd = fs.open(path, O_RDWR);
  auto const wrong = zeroed<word>(1);
  launch(store_runs<Element>, blocks, threads, fs.ref(), fd, offset, run, wrong.data());
  CHECK(result_in(wrong)[0] == 0);
  CHECK(fs.close(fd) == 0);
  CHECK(pread_bytes(path, 0, ~0ull) == expected);
  CHECK(inspect(fs.ref()).problems == "");
  CHECK(fs.stats().bytes_unposted == 0);
}

/// Elements in turns of `chunk`, so that all threads share all pages. The last word of each page is
/// nobody's.
constexpr std::uint64_t chunk = 3;
constexpr std::uint64_t owned_per_page = per_page - 1;
__device__ std::uint64_t owned(std::uint64_t mine, std::uint64_t threads, std::uint64_t k) {
  std::uint64_t const n = (k / chunk * threads + mine) * chunk + k % chunk;
  return n / owned_per_page * per_page + n % owned_per_page;
}

/// Each thread stores to words of its own by two pointers and an array, in runs and jumps, and
/// reads them. last[i]: what was stored last. Block 0 also calls gfsync.
__global__ void store_anyhow(fs_ref fs, int fd, std::uint64_t each, std::uint32_t rounds,
                             write_policy policy, std::uint64_t seed, word* last, word* wrong) {
  auto const block = cg::this_thread_block();
  io_context io(fs, block);
  array<word> const a(io, fd, 0, array<word>::to_the_end, policy);
  std::uint64_t const threads = gridDim.x * blockDim.x;
  std::uint64_t const mine = blockIdx.x * blockDim.x + threadIdx.x;
  auto const p = a.writer(0), q = a.writer(per_page);
  std::uint64_t random = seed + mine * 31, k = 0;
  for (std::uint32_t round = 0; round < rounds; ++round) {
    if (round % 16 == 0 && blockIdx.x == 0) count_if(gfsync(io, fd) != 0, wrong);
    k = draw(random) % 3 == 0 ? draw(random) % each : (k + 1) % each;
    std::uint64_t const i = owned(mine, threads, k);
    auto const at = static_cast<std::int64_t>(i);
    auto const from_q = static_cast<std::int64_t>(i - per_page);
    word const x = draw(random);
    switch (draw(random) % 8) {
      case 0: a.store(i, x); break;
      case 1: q.store(from_q, x); break;
      case 2: count_if(p.load(at) != last[i], wrong); continue;
      case 3: count_if(a.load(i) != last[i], wrong); continue;
      case 4: count_if(p.flush() != 0, wrong); continue;
      case 5:
        if (draw(random) % 4 == 0) p.release();
        continue;
      default: p[at] = x;
    }
    last[i] = x;
  }
  p.release();
  count_if(a.error() != 0 || p.error() != 0 || q.error() != 0, wrong);
}

/// One thread of the kernel goes on whenever the host says so. steps[0]: the host's turn, steps[1]:
/// the kernel's.
__device__ void reach(std::uint32_t* steps, std::uint32_t step) {
  atomic_ref<std::uint32_t, scope::system>(steps[1]).store(step, memory_order_release);
  wait_for(steps[0], step);
}
struct turns {
  pinned_buffer<std::uint32_t> word{2};
  turns() { word.fill_zero(); }
  void await(std::uint32_t step) {
    wait_until([&] { return std::atomic_ref(word[1]).load() == step; }, "the kernel's step");
  }
  void go_on(std::uint32_t step) { std::atomic_ref(word[0]).store(step); }
};

/// Stores in steps, between which the host looks at the file.
__global__ void store_in_steps(fs_ref fs, int fd, std::uint32_t* steps, word* wrong) {
  io_context io(fs, cg::this_thread_block());
  array<word> const a(io, fd), b(io, fd);
  if (threadIdx.x != 0) return;
  {
    auto const p = a.writer(10);
    for (int n = 0; n < 5; ++n) p[n] = 100 + n;
    count_if(b.load(12) != 102, wrong);  // seen at once, and not posted
    reach(steps, 1);
    count_if(p.flush() != 0, wrong);
    reach(steps, 2);
    p[5] = 105;   // beside what was posted
    p[20] = 120;  // elsewhere: posts that one
    reach(steps, 3);
    p[per_page] = 200;  // another page: posts 120
    reach(steps, 4);
    auto const copy = p;
    p[per_page + 1] = 201;
    count_if(copy.flush() != 0, wrong);  // has nothing
    reach(steps, 5);
    count_if(a.error() != 0 || p.error() != 0, wrong);
  }  // its end posts 200 and 201
  reach(steps, 6);
}

/// Stores while the host, or this block, gives the file another version; posts afterwards.
__global__ void store_over_versions(fs_ref fs, int fd, bool truncates, std::uint32_t* steps,
                                    word* wrong) {
  auto const block = cg::this_thread_block();
  io_context io(fs, block);
  array<word> const a(io, fd);
  auto const p = a.writer(0);
  if (threadIdx.x == 0) {
    for (int n = 3; n < 8; ++n) p[n] = 100 + n;
    reach(steps, 1);
  }
  block.sync();
  if (truncates) count_if(gftruncate(io, fd, 16) != 0, wrong);
  {
    __shared__ word seen[1];
    io_context again(fs, block);  // takes the new version for all
    count_if(gread(again, fd, seen, 8, 0) != 8, wrong);
  }
  if (threadIdx.x == 0) {
    count_if(p.flush() != 0, wrong);
    count_if(p.load(5) != 105, wrong);
    count_if(!truncates && p.load(20) != 4711, wrong);  // the host's, in the new version
    p[8] = 108;
  }
  count_if(a.error() != 0 || p.error() != 0, wrong);
}

/// Stores 4 words by each of some lanes and says what flush() and release() made of it.
__global__ void store_and_fail(fs_ref fs, int fd, bool flushes, std::uint32_t* steps,
                               std::int32_t* results) {
  io_context io(fs, cg::this_thread_block());
  array<word> const a(io, fd);
  if (threadIdx.x != 0) return;
  auto const p = a.writer(0);
  for (int n = 0; n < 4; ++n) p[n] = 50 + n;
  results[0] = flushes ? p.flush() : 0;
  results[1] = p.error();
  reach(steps, 1);
  results[2] = flushes ? p.flush() : 0;
  p.release();
  results[3] = p.error();
  p[9] = 59;
}

__global__ void store_plain(fs_ref fs, int fd, std::uint64_t i, word value, std::int32_t* error) {
  io_context io(fs, cg::this_thread_block());
  array<word> const a(io, fd, 0, 100);
  if (threadIdx.x == 0) a.store(i, value);
  if (threadIdx.x == 0) *error = a.error();
}

/// Lane t stores to element at[t] of 100, and says what the pointer's error is.
__global__ void store_at(fs_ref fs, int fd, std::uint64_t const* at, std::int32_t* errors) {
  io_context io(fs, cg::this_thread_block());
  array<word> const a(io, fd, 0, 100);
  auto const p = a.writer(0);
  p[static_cast<std::int64_t>(at[threadIdx.x])] = 9;
  p.release();
  errors[threadIdx.x] = p.error();
}

/// All frames are held while a store needs one; then they are let go.
__global__ void store_without_frames(fs_ref fs, int held_fd, int fd, std::int32_t* errors) {
  auto const block = cg::this_thread_block();
  io_context io(fs, block);
  array<word const> const h(io, held_fd);
  array<word> const a(io, fd, 0, 100);
  auto p = h.pointer(threadIdx.x % 8 * per_page);
  static_cast<void>(*p);
  block.sync();
  if (threadIdx.x == 0) {
    auto const w = a.writer(1);
    *w = 5;
    errors[0] = w.error();
  }
  block.sync();
  p.release();
  block.sync();
  if (threadIdx.x == 0) {
    auto const w = a.writer(1);
    *w = 6;
    w.release();
    errors[1] = w.error();
  }
}

struct crowd {
  unsigned blocks;
  unsigned threads;
  std::uint64_t each;    ///< words of a thread
  std::uint64_t frames;  ///< 0: as many as pages, and a few
  write_policy policy;
  std::uint64_t write_memory = 128 << 20;
};

void store_in_crowd(crowd const& c) {
  CAPTURE(c.blocks);
  CAPTURE(c.frames);
  CAPTURE(c.write_memory);
  CAPTURE(int(c.policy));
  std::uint64_t const pages = c.blocks * c.threads * c.each / owned_per_page + 1;
  scratch_folder folder;
  auto const before = counted_up(pages * per_page);
  auto const path = file_of(folder, before);
  auto settings = small_config(page, c.frames == 0 ? pages + 16 : c.frames);
  settings.write_memory = c.write_memory;
  filesystem fs(settings);
  int const fd = fs.open(path, O_RDWR);
  auto const last = filled(before);
  auto const wrong = zeroed<word>(1);
  launch(store_anyhow, c.blocks, c.threads, fs.ref(), fd, c.each, scaled(160, 40), c.policy, seed(),
         last.data(), wrong.data());
  int const other = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  for (std::uint64_t p = 0; p < pages; ++p) {
    word const theirs = 4711 + p;
    CHECK(::pwrite(other, &theirs, 8, std::int64_t((p * per_page + owned_per_page) * 8)) == 8);
    if (p % 8 == 0) CHECK(fs.sync() == 0);
  }
  ::close(other);
  CHECK(result_in(wrong)[0] == 0);
  if (c.frames != 0) CHECK(fs.stats().evictions > 0);
  CHECK(fs.close(fd) == 0);
  auto expected = contents(last);
  for (std::uint64_t p = 0; p < pages; ++p) expected[p * per_page + owned_per_page] = 4711 + p;
  CHECK(elements_in<word>(path) == expected);
  CHECK(inspect(fs.ref()).problems == "");
  CHECK(fs.stats().bytes_unposted == 0);
}

}  // namespace

TEST_CASE("held_writer: runs of elements of all sizes, across pages, in both directions") {
  for (std::int64_t const offset : {0, 64}) {
    check_runs<element<unsigned char, 1>>(offset + 3, 100);
    check_runs<element<std::uint64_t, 8>>(offset, 37);
    check_runs<element<std::uint32_t, 12>>(offset, 30);  // some straddle pages
    check_runs<element<uint4, 16>>(offset, 16);
    check_runs<element<std::uint64_t, 640>>(offset, 2);  // longer than a page
  }
}

TEST_CASE(
    "held_writer: threads that hold the same pages, arrays, gfsync, fs.sync and another process "
    "lose no byte and write no other") {
  for (auto const policy : {write_policy::on_evict, write_policy::through}) {
    store_in_crowd({scaled(3, 2), scaled(64, 32), 24, 0, policy});
    // 32 threads with two pages each at most, and more pages than frames.
    store_in_crowd({1, 32, 201, 88, policy});
    store_in_crowd({1, 32, 201, 88, policy, 4096});  // 8 write buffers
  }
}

TEST_CASE("held_writer: a sync has what was posted, and not what was only stored") {
  scratch_folder folder;
  auto expected = counted_up(4 * per_page);
  auto const path = file_of(folder, expected);
  filesystem fs(small_config(page, 16));
  int const fd = fs.open(path, O_RDWR);
  turns t;
  auto const wrong = zeroed<word>(1);
  launch(store_in_steps, 1, 32, fs.ref(), fd, t.word.data(), wrong.data());
  auto const look = [&](std::uint32_t step) {
    CAPTURE(step);
    t.await(step);
    CHECK(fs.sync(fd) == 0);
    CHECK(elements_in<word>(path) == expected);
    t.go_on(step);
  };
  look(1);
  for (word n = 0; n < 5; ++n) expected[10 + n] = 100 + n;
  look(2);
  expected[15] = 105;
  look(3);
  expected[30] = 120;
  look(4);
  look(5);
  expected[10 + per_page] = 200;
  expected[11 + per_page] = 201;
  look(6);
  CHECK(result_in(wrong)[0] == 0);
  CHECK(fs.close(fd) == 0);
  CHECK(inspect(fs.ref()).problems == "");
}

TEST_CASE("held_writer: what is posted behind fs.write is written to the new version") {
  scratch_folder folder;
  auto expected = counted_up(4 * per_page);
  auto const path = file_of(folder, expected);
  filesystem fs(small_config(page, 16));
  int const fd = fs.open(path, O_RDWR);
  turns t;
  auto const wrong = zeroed<word>(1);
  launch(store_over_versions, 1, 32, fs.ref(), fd, false, t.word.data(), wrong.data());
  t.await(1);
  word const theirs = 4711;
  for (std::int64_t const i : {5, 20}) CHECK(fs.write(fd, &theirs, 8, i * 8) == 8);
  t.go_on(1);
  CHECK(result_in(wrong)[0] == 0);
  CHECK(fs.close(fd) == 0);
  for (word n = 3; n < 9; ++n) expected[n] = 100 + n;  // also 5: the pointer posts later
  expected[20] = theirs;
  CHECK(elements_in<word>(path) == expected);
  CHECK(inspect(fs.ref()).problems == "");
}

TEST_CASE("held_writer: what is posted behind gftruncate makes the file longer, as a gwrite does") {
  scratch_folder folder;
  auto const before = counted_up(4 * per_page);
  auto const path = file_of(folder, before);
  filesystem fs(small_config(page, 16));
  int const fd = fs.open(path, O_RDWR);
  turns t;
  t.go_on(1);
  auto const wrong = zeroed<word>(1);
  launch(store_over_versions, 1, 32, fs.ref(), fd, true, t.word.data(), wrong.data());
  CHECK(result_in(wrong)[0] == 0);
  CHECK(fs.close(fd) == 0);
  CHECK(elements_in<word>(path) ==
        std::vector<word>{before[0], before[1], 0, 103, 104, 105, 106, 107, 108});
  CHECK(inspect(fs.ref()).problems == "");
}

TEST_CASE("held_writer: flush() tells why nothing was posted, and keeps it for the next one") {
  for (bool const flushes : {true, false}) {
    CAPTURE(flushes);
    scratch_folder folder;
    auto expected = counted_up(3 * per_page);
    auto const path = file_of(folder, expected);
    std::atomic<bool> fails{true};
    auto const faults = read_faults({});
    faults->on_write = [&](std::uint64_t, std::uint64_t) {
      return fails ? testing::fault_action::fail(ENOSPC) : testing::fault_action::pass();
    };
    testing::filesystem fs(small_config(page, 16), faults);
    int const fd = fs.open(path, O_RDWR);
    auto const error = zeroed<std::int32_t>(1);
    launch(store_plain, 1, 32, fs.ref(), fd, std::uint64_t{80}, word{1}, error.data());
    CHECK(result_in(error)[0] == 0);
    CHECK(fs.sync() == -EIO);  // nobody has reported the error so far
    turns t;
    auto const results = zeroed<std::int32_t>(4);
    launch(store_and_fail, 1, 32, fs.ref(), fd, flushes, t.word.data(), results.data());
    t.await(1);
    if (flushes) {
      fails = false;
      CHECK(fs.sync(fd) == -ENOSPC);
      CHECK(fs.sync(fd) == 0);
    }
    t.go_on(1);
    expected[80] = 1;
    if (flushes) {
      CHECK(result_in(results) == std::vector<std::int32_t>{-ENOSPC, -ENOSPC, 0, -ENOSPC});
      CHECK(fs.stats().bytes_unposted == 0);
      for (word n = 0; n < 4; ++n) expected[n] = 50 + n;
      expected[9] = 59;
    } else {
      // Its end could not post element 9 either.
      CHECK(result_in(results) == std::vector<std::int32_t>{0, 0, 0, -ENOSPC});
      CHECK(fs.stats().bytes_unposted == 5 * 8);
      fails = false;
      CHECK(fs.sync(fd) == -ENOSPC);
    }
    CHECK(fs.close(fd) == 0);
    CHECK(elements_in<word>(path) == expected);
    CHECK(inspect(fs.ref()).problems == "");
  }
}

TEST_CASE("held_writer: refused descriptors and indices store nothing; files grow") {
  scratch_folder folder;
  auto expected = counted_up(60);
  auto const path = file_of(folder, expected);
  filesystem fs(small_config(page, 64));
  auto const store = [&](int fd, std::uint64_t i) {
    std::vector<word> indices(32, i);
    if (i < 100)  // elements of their own: lanes that store to one element race
      for (word t = 0; t < 32; ++t) indices[t] = i - t;
    auto const at = filled(indices);
    auto const errors = zeroed<std::int32_t>(32);
    launch(store_at, 1, 32, fs.ref(), fd, at.data(), errors.data());
    auto const all = result_in(errors);
    CHECK(all == std::vector<std::int32_t>(32, all[0]));
    return all[0];
  };
  int const reader = fs.open(path, O_RDONLY);
  CHECK(store(reader, 40) == -EACCES);
  CHECK(store(-1, 40) == -EBADF);
  CHECK(fs.close(reader) == 0);
  int const fd = fs.open(path, O_RDWR);
  CHECK(store(fd, 100) == -ERANGE);
  CHECK(store(fd, ~0ull) == -ERANGE);
  CHECK(store(fd, 99) == 0);
  CHECK(fs.close(fd) == 0);
  expected.resize(100, 0);
  for (word t = 0; t < 32; ++t) expected[99 - t] = 9;
  CHECK(elements_in<word>(path) == expected);
  CHECK(inspect(fs.ref()).problems == "");
}

TEST_CASE("held_writer: while every frame is held nothing is stored, and -ENOMEM says so") {
  scratch_folder folder;
  auto expected = counted_up(100);
  auto const path = file_of(folder, expected);
  auto settings = small_config(page, 8);
  settings.rpc_timeout_ms = 2000;
  filesystem fs(settings);
  int const fd = fs.open(path, O_RDWR);
  auto const errors = zeroed<std::int32_t>(2);
  launch(store_without_frames, 1, 64, fs.ref(),
         fs.open(make_file(folder, "held", 8 * page), O_RDONLY), fd, errors.data());
  CHECK(result_in(errors) == std::vector<std::int32_t>{-ENOMEM, 0});
  CHECK(fs.close(fd) == 0);
  expected[1] = 6;
  CHECK(elements_in<word>(path) == expected);
  CHECK(inspect(fs.ref()).problems == "");
}
