// gpufs::array and held_ptr: elements by every lane for itself, under divergence, across pages,
// with few frames; stores, bounds, errors.
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
#include <cstring>
#include <string>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

namespace cg = cooperative_groups;
using namespace gpufs;
using namespace gpufs::test;

namespace {

/// Element i of the files of these tests, whatever its type: all derive from it.
__host__ __device__ std::uint64_t nth(std::uint64_t i) { return i * 0x9e3779b97f4a7c15ull + 12345; }

/// Twelve bytes, aligned to four: in pages of 512 bytes every 43rd straddles two of them.
struct triple {
  std::uint32_t a, b, c;
};
static_assert(sizeof(triple) == 12);
__host__ __device__ triple nth_triple(std::uint64_t i) {
  return {std::uint32_t(nth(i)), std::uint32_t(nth(i) >> 32), std::uint32_t(i)};
}

/// Larger than the smallest page.
struct large {
  std::uint64_t word[80];
};

template <class T, class Make>
std::string file_of(scratch_folder const& folder, std::string const& name, std::uint64_t before,
                    std::uint64_t count, Make make) {
  std::vector<std::byte> bytes(before + count * sizeof(T));
  for (std::uint64_t i = 0; i < count; ++i) {
    T const value = make(i);
    std::memcpy(bytes.data() + before + i * sizeof(T), &value, sizeof(T));
  }
  auto path = folder / name;
  int const fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  REQUIRE(::write(fd, bytes.data(), bytes.size()) == ssize_t(bytes.size()));
  ::close(fd);
  return path;
}
std::string words(scratch_folder const& folder, std::uint64_t count) {
  return file_of<std::uint64_t>(folder, "words", 0, count, [](std::uint64_t i) { return nth(i); });
}

/// How the lanes of a warp differ in what they do.
enum class divergence : std::uint32_t {
  none,
  a_page_each,
  half_exits,
  loops_of_different_length,
  every_lane_alone
};

__global__ void look_up(fs_ref fs, int fd, divergence how, std::uint32_t rounds, std::uint64_t seed,
                        std::uint64_t* wrong) {
  auto const block = cg::this_thread_block();
  io_context io(fs, block);
  array<std::uint64_t const> const a(io, fd);
  std::uint64_t random =
      seed + blockIdx.x * 977 + (how == divergence::none ? threadIdx.x / 32 : threadIdx.x) * 31;
  std::uint32_t mine = rounds;
  if (how == divergence::half_exits && lane_id() % 2 == 0) mine = rounds / 4;
  if (how == divergence::loops_of_different_length) mine = rounds * (lane_id() % 8) / 8;
  auto const look = [&] {
    random = random * 6364136223846793005ull + 1442695040888963407ull;
    std::uint64_t const i = how == divergence::none ? ((random >> 33) + lane_id()) % a.size()
                                                    : (random >> 33) % a.size();
    count_if(a[i] != nth(i), wrong);
  };
  if (how == divergence::every_lane_alone) {
    for (unsigned lane = 0; lane < 32; ++lane) {
      if (lane_id() == lane) {
        for (std::uint32_t round = 0; round < 1; ++round) look();
      }
    }
  } else {
    for (std::uint32_t round = 0; round < mine; ++round) look();
  }
  count_if(a.error() != 0, wrong);
}

/// Reads the pages that belong in the first half of the buckets.
__global__ void read_crowded(fs_ref fs, int fd, std::uint64_t per_page, std::uint64_t* wrong) {
  auto const block = cg::this_thread_block();
  io_context io(fs, block);
  array<std::uint64_t const> const a(io, fd);
  std::uint64_t const version = io.file().version,
                      warps = std::uint64_t{gridDim.x} * blockDim.x / 32;
  for (std::uint64_t page = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
       page < a.size() / per_page; page += warps) {
    if (cache::locate(fs.cache, version, page).bucket >= fs.cache.bucket_count / 2) continue;
    for (std::uint64_t i = page * per_page + lane_id(); i < (page + 1) * per_page; i += 32)
      count_if(a[i] != nth(i), wrong);
  }
  count_if(a.error() != 0, wrong);
}

/// A warp for each page that is in the cache reads all of it by elements. Also counts the pages
/// that are seen in the first ways of their buckets, and further on.
__global__ void read_seen(fs_ref fs, int fd, std::uint64_t per_page, std::uint64_t* near,
                          std::uint64_t* further, std::uint64_t* wrong) {
  auto const block = cg::this_thread_block();
  io_context io(fs, block);
  array<std::uint64_t const> const a(io, fd);
  std::uint64_t const version = io.file().version,
                      warps = std::uint64_t{gridDim.x} * blockDim.x / 32;
  for (std::uint64_t page = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
       page < a.size() / per_page; page += warps) {
    cache::seen_frame seen;
    bool const at_once = cache::see_page(fs.cache, version, page, seen);
    bool const later =
        !at_once && cache::see_page_further(&fs.self->cache, version, page).header != nullptr;
    if (lane_id() == 0) {
      count_if(at_once, near);
      count_if(later, further);
    }
    if (!at_once && !later) continue;
    for (std::uint64_t i = page * per_page + lane_id(); i < (page + 1) * per_page; i += 32)
      count_if(a[i] != nth(i), wrong);
  }
  count_if(a.error() != 0, wrong);
}

__global__ void compare_triples(fs_ref fs, int fd, std::int64_t offset, std::uint64_t* wrong) {
  auto const block = cg::this_thread_block();
  io_context io(fs, block);
  array<triple const> const a(io, fd, offset);
  auto const compare = [&](std::uint64_t i, triple const& got) {
    triple const want = nth_triple(i);
    count_if(got.a != want.a || got.b != want.b || got.c != want.c, wrong);
  };
  for (std::uint64_t i = threadIdx.x; i < a.size(); i += blockDim.x) compare(i, a[i]);
  auto p = a.pointer(threadIdx.x);
  for (; p.index() < a.size(); p += blockDim.x) compare(p.index(), *p);
  count_if(a.error() != 0 || p.error() != 0, wrong);
}

__global__ void compare_large(fs_ref fs, int fd, std::uint64_t* wrong) {
  auto const block = cg::this_thread_block();
  io_context io(fs, block);
  array<large const> const a(io, fd);
  for (std::uint64_t i = threadIdx.x; i < a.size(); i += blockDim.x) {
    large const got = a[i];
    for (unsigned w = 0; w < 80; ++w) count_if(got.word[w] != nth(i * 80 + w), wrong);
  }
  count_if(a.error() != 0, wrong);
}

/// Two warps: the first comes back to page 0, then waits until the second has read all others; then
/// it reads page 0 once more. Its lanes are left to part as they like, so it comes back often.
__global__ void come_back(fs_ref fs, int fd, std::uint64_t per_page, std::uint32_t* step,
                          std::uint64_t* wrong) {
  auto const block = cg::this_thread_block();
  io_context io(fs, block);
  array<std::uint64_t const> const a(io, fd);
  atomic_ref<std::uint32_t> const at(*step);
  auto const look = [&](std::uint64_t i) { count_if(a[i] != nth(i), wrong); };
  auto const wait_for = [&](std::uint32_t wanted) {
    if (threadIdx.x == 0) {
      for (unsigned pause = 0; at.load(memory_order_acquire) != wanted;) backoff(pause);
    }
    block.sync();
  };
  auto const go_on = [&](std::uint32_t now) {
    block.sync();
    if (threadIdx.x == 0) at.store(now, memory_order_release);
  };
  if (blockIdx.x == 0) {
    for (unsigned round = 0; round < 100; ++round) {
      block.sync();
      look((threadIdx.x + round) % per_page);
    }
    go_on(1);
    wait_for(2);
    look(threadIdx.x);
  } else {
    wait_for(1);
    for (std::uint64_t i = per_page + threadIdx.x; i < a.size(); i += 32) {
      block.sync();
      look(i);
    }
    go_on(2);
  }
  count_if(a.error() != 0, wrong);
}

/// Warps come back to a page, so that it is kept; then some of their lanes look elsewhere, copy the
/// array, assign to it; in the end half of them stop, with a page that is kept. `most_kept`: of
/// frames kept at once, as any of them saw it.
__global__ void stay_and_stray(fs_ref fs, int fd, std::uint64_t per_page, std::uint32_t rounds,
                               std::uint64_t seed, std::uint64_t* wrong, std::uint32_t* most_kept) {
  auto const block = cg::this_thread_block();
  io_context io(fs, block);
  array<std::uint64_t const> a(io, fd);
  auto const draw = [](std::uint64_t& random) {
    random = random * 6364136223846793005ull + 1442695040888963407ull;
    return random >> 33;
  };
  std::uint64_t together = seed + blockIdx.x * 977 + threadIdx.x / 32,
                alone = together * 31 + threadIdx.x;
  std::uint64_t const pages = a.size() / per_page;
  auto const look = [&](array<std::uint64_t const> const& in, std::uint64_t i) {
    count_if(in[i] != nth(i), wrong);
  };
  auto const stay = [&] {
    std::uint64_t const page = draw(together) % pages;
    for (unsigned again = 0; again < 6; ++again) {
      __syncwarp();
      look(a, page * per_page + draw(alone) % per_page);
    }
    atomic_ref<std::uint32_t> const most(*most_kept);
    std::uint32_t now = 0;
    for (std::uint32_t group = 0; group < fs.pins.kept_groups; ++group) {
      std::uint32_t& kept = fs.pins.kept_frames[group * handle::kept_stride];
      now += atomic_ref<std::uint32_t>(kept).load(memory_order_relaxed);
    }
    for (std::uint32_t seen = most.load(memory_order_relaxed);
         seen < now && !most.compare_exchange_weak(seen, now, memory_order_relaxed);) {
    }
  };
  for (std::uint32_t round = 0; round < rounds; ++round) {
    stay();
    if (draw(alone) % 4 == 0) look(a, draw(alone) % a.size());
    if (draw(alone) % 8 != 0) continue;
    auto const copy = a;  // has nothing pinned
    look(copy, draw(alone) % a.size());
    if (draw(alone) % 2 == 0) a = copy;
  }
  stay();
  if (lane_id() % 2 == 0) {
    for (unsigned more = 0; more < 8; ++more) look(a, draw(alone) % a.size());
  }
  count_if(a.error() != 0, wrong);
}

/// One warp with more arrays than there are frames to keep, each of which it comes back to; then it
/// reads through all of them, and by gread.
__global__ void many_arrays(fs_ref fs, int fd, std::uint64_t per_page, std::byte* bytes,
                            ssize_t* result, std::uint64_t* wrong) {
  auto const block = cg::this_thread_block();
  io_context io(fs, block);
  using words_of = array<std::uint64_t const>;
  words_of const all[9] = {{io, fd}, {io, fd}, {io, fd}, {io, fd}, {io, fd},
                           {io, fd}, {io, fd}, {io, fd}, {io, fd}};
  for (unsigned again = 0; again < 40; ++again) {
    for (unsigned k = 0; k < 9; ++k) {
      __syncwarp();
      std::uint64_t const i = k * per_page + threadIdx.x;
      count_if(all[k][i] != nth(i), wrong);
    }
  }
  for (auto const& a : all) count_if(a.error() != 0, wrong);
  block.sync();
  ssize_t const n = gread(io, fd, bytes, 4 * per_page * 8, std::int64_t(20 * per_page * 8));
  if (threadIdx.x == 0) *result = n;
}

/// What constructors and accesses say of themselves; one warp.
__global__ void collect_errors(fs_ref fs, int reads, int writes, int both, std::int32_t* errors) {
  auto const block = cg::this_thread_block();
  io_context io(fs, block);
  unsigned n = 0;
  auto const say = [&](int error) {
    if (threadIdx.x == 0) errors[n] = error;
    ++n;
  };
  say(array<std::uint64_t const>(io, -1).error());
  say(array<std::uint64_t const>(io, writes).error());
  say(array<std::uint64_t>(io, reads).error());
  say(array<std::uint64_t const>(io, reads, -8).error());
  say(array<std::uint64_t const>(io, reads, 4).error());
  say(array<std::uint64_t const>(io, reads, 0, 101).error());
  say(array<std::uint64_t const>(io, reads, 8, 100).error());
  say(array<std::uint64_t>(io, both, 8, 100).error());
  array<std::uint64_t const> const a(io, reads, 8, 99);
  say(a[98] == nth(99) ? a.error() : 1);
  bool const outside = a[99 + threadIdx.x] == 0;
  say(outside ? a.error() : 1);
  say(a[0] == nth(1) ? a.error() : 1);  // sticky, and later accesses go on
  array<std::uint64_t const> const b(io, reads);
  if (threadIdx.x == 7) static_cast<void>(b[1ull << 60]);
  say(b.error());
  __syncwarp();
  unsigned const by = __ballot_sync(0xffffffffu, b.error() != 0);
  say(by == 1u << 7 ? -ERANGE : 0);
  auto p = b.pointer(5);
  say(*p == nth(5) && p[-5] == nth(0) && p[94] == nth(99) ? p.error() : 1);
  say(p[95] == 0 ? p.error() : 1);
}

/// Block b stores every blocks-th element, in runs that lanes share, or each lane far from the
/// others.
__global__ void store_elements(fs_ref fs, int fd, std::uint64_t count, bool scattered,
                               std::uint64_t* wrong) {
  auto const block = cg::this_thread_block();
  io_context io(fs, block);
  array<std::uint64_t> a(io, fd, 0, count);
  std::uint64_t const per_block = count / gridDim.x;
  for (std::uint64_t k = threadIdx.x; k < per_block; k += blockDim.x) {
    std::uint64_t const i =
        scattered ? (k * 37 % per_block) * gridDim.x + blockIdx.x : blockIdx.x * per_block + k;
    a[i] = nth(i);
    count_if(a[i] != nth(i), wrong);
  }
  count_if(a.error() != 0, wrong);
}

__global__ void store_triples(fs_ref fs, int fd, std::int64_t offset, std::uint64_t count,
                              std::uint64_t* wrong) {
  auto const block = cg::this_thread_block();
  io_context io(fs, block);
  array<triple> a(io, fd, offset, count);
  for (std::uint64_t i = threadIdx.x; i < count; i += blockDim.x) a[i] = nth_triple(i);
  count_if(a.error() != 0, wrong);
}

/// Reads one element through a pointer to its page.
__global__ void read_held(fs_ref fs, int fd, std::uint64_t i, std::uint64_t* value, int* error) {
  io_context io(fs, cg::this_thread_block());
  array<std::uint64_t const> const a(io, fd);
  if (threadIdx.x != 0) return;
  auto const p = a.pointer(i);
  *value = *p;
  *error = p.error();
}

__global__ void sum_through_pointer(fs_ref fs, int fd, std::uint64_t per_warp, std::uint64_t* sums,
                                    std::uint64_t* wrong) {
  auto const block = cg::this_thread_block();
  io_context io(fs, block);
  array<std::uint64_t const> const a(io, fd);
  std::uint64_t const warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
  auto p = a.pointer(warp * per_warp + lane_id());
  std::uint64_t sum = 0;
  for (std::uint64_t i = lane_id(); i < per_warp; i += 32, p += 32) sum += *p;
  count_if(p.error() != 0, wrong);
  atomic_ref<std::uint64_t>(*sums).fetch_add(sum, memory_order_relaxed);
}

/// Each warp jumps from page to page at random, and holds at most two while its lanes part.
__global__ void jump(fs_ref fs, int fd, std::uint64_t per_page, std::uint32_t rounds,
                     std::uint64_t seed, std::uint64_t* wrong) {
  auto const block = cg::this_thread_block();
  io_context io(fs, block);
  array<std::uint64_t const> const a(io, fd);
  std::uint64_t random = seed + (blockIdx.x * blockDim.x + threadIdx.x) / 32 * 977;
  auto p = a.pointer(0);
  for (std::uint32_t round = 0; round < rounds; ++round) {
    random = random * 6364136223846793005ull + 1442695040888963407ull;
    std::uint64_t const i = (random >> 33) % (a.size() / per_page) * per_page + lane_id();
    p += static_cast<std::int64_t>(i - p.index());
    unsigned pause = 0;
    for (unsigned look = 0; look < 4; ++look, backoff(pause))
      count_if(*p != nth(i), wrong);  // it must stay what it is
    __syncwarp();
  }
  count_if(p.error() != 0, wrong);
}

/// Each lane holds a page of its own, then all look for one more.
__global__ void hold_everything(fs_ref fs, int fd, std::uint64_t step, std::int32_t* errors) {
  auto const block = cg::this_thread_block();
  io_context io(fs, block);
  array<std::uint64_t const> const a(io, fd);
  auto p = a.pointer(threadIdx.x % 8 * step);
  static_cast<void>(*p);
  block.sync();
  if (threadIdx.x == 0) {
    static_cast<void>(a[8 * step]);  // the page before is there, so this one is brought in, too
    errors[0] = a.error();
  }
  block.sync();
  p.release();
  block.sync();
  array<std::uint64_t const> const b(io, fd);
  errors[1 + threadIdx.x] = b[9 * step] == nth(9 * step) && p.error() == 0 ? b.error() : 1;
}

/// Lanes of one warp come to one access with arrays of different files, and hold pages of both.
__global__ void mix_files(fs_ref fs, int one, int other, std::uint64_t* wrong) {
  auto const block = cg::this_thread_block();
  io_context io(fs, block);
  array<std::uint64_t const> const a(io, one);
  array<std::uint64_t const> const b(io, other);
  auto const& mine = lane_id() % 2 == 0 ? a : b;
  std::uint64_t const shift = lane_id() % 2 == 0 ? 0 : 1000000;
  auto p = mine.pointer(threadIdx.x);
  for (std::uint64_t i = threadIdx.x; i < mine.size(); i += blockDim.x, p += blockDim.x) {
    count_if(mine[i] != nth(i + shift), wrong);
    count_if(*p != nth(i + shift), wrong);
    p.release();
  }
  count_if(a.error() != 0 || b.error() != 0 || p.error() != 0, wrong);
}

/// Loads element i before and after the file is cut.
__global__ void load_across_truncation(fs_ref fs, int reads, int writes, std::int64_t size,
                                       std::uint64_t i, std::int32_t* errors) {
  auto const block = cg::this_thread_block();
  io_context io(fs, block);
  array<std::uint64_t const> const a(io, reads);
  bool const before = a[i] == nth(i) && a.error() == 0;
  int const cut = gftruncate(io, writes, size);
  bool const gone = a[i] == 0;
  auto const p = a.pointer(i);
  bool const gone_there = *p == 0;
  if (threadIdx.x == 0) {
    errors[0] = before ? 0 : 1;
    errors[1] = cut;
    errors[2] = gone ? a.error() : 1;
    errors[3] = gone_there ? p.error() : 1;
  }
}

__global__ void read_triple(fs_ref fs, int fd, std::uint64_t i, triple* value,
                            std::int32_t* error) {
  auto const block = cg::this_thread_block();
  io_context io(fs, block);
  array<triple const> const a(io, fd);
  triple const got = a[i];
  if (threadIdx.x == 0) {
    *value = got;
    *error = a.error();
  }
}

__global__ void read_one(fs_ref fs, int fd, std::uint64_t i, std::int32_t* error,
                         std::uint64_t* value) {
  auto const block = cg::this_thread_block();
  io_context io(fs, block);
  array<std::uint64_t const> const a(io, fd);
  std::uint64_t const got = a[i];
  if (threadIdx.x == 3) {
    *error = a.error();
    *value = got;
  }
}

}  // namespace

TEST_CASE(
    "array: lookups of 64 warps through 8 frames give the file's elements, however their lanes "
    "diverge") {
  scratch_folder folder;
  constexpr std::uint64_t elements = 6000;
  auto const path = words(folder, elements);
  for (std::uint64_t const page : {512u, 4096u}) {
    for (auto const how : {divergence::none, divergence::a_page_each, divergence::half_exits,
                           divergence::loops_of_different_length, divergence::every_lane_alone}) {
      auto settings = small_config(page, 8);
      if (page == 4096) settings.path = io_path::registered;
      filesystem fs(settings);
      int const fd = fs.open(path, O_RDONLY);
      auto wrong = zeroed<std::uint64_t>(1);
      launch(look_up, scaled(16, 4), scaled(128, 64), fs.ref(), fd, how, 4u, seed(), wrong.data());
      CAPTURE(page);
      CAPTURE(std::uint32_t(how));
      CHECK(result_in(wrong)[0] == 0);
      CHECK(inspect(fs.ref()).problems == "");
    }
  }
}

TEST_CASE(
    "array, held_ptr: elements that straddle pages, that are larger than pages, that begin "
    "anywhere") {
  scratch_folder folder;
  for (std::uint64_t const page : {512u, 4096u}) {
    for (std::int64_t const offset : {0, 4, 508}) {
      auto const path = file_of<triple>(folder, "triples", std::uint64_t(offset), 800, nth_triple);
      filesystem fs(small_config(page, 16));
      auto wrong = zeroed<std::uint64_t>(1);
      launch(compare_triples, 1, 64, fs.ref(), fs.open(path, O_RDONLY), offset, wrong.data());
      CHECK(result_in(wrong)[0] == 0);
      CHECK(inspect(fs.ref()).problems == "");
    }
    filesystem fs(small_config(page, 16));
    auto wrong = zeroed<std::uint64_t>(1);
    launch(compare_large, 1, 64, fs.ref(), fs.open(words(folder, 80 * 70), O_RDONLY), wrong.data());
    CHECK(result_in(wrong)[0] == 0);
  }
}

TEST_CASE("array: bounds, access and errors, which stay and do not stop later accesses") {
  scratch_folder folder;
  auto const path = words(folder, 100);
  filesystem fs(small_config(512, 8));
  auto errors = zeroed<std::int32_t>(15);
  launch(collect_errors, 1, 32, fs.ref(), fs.open(path, O_RDONLY), fs.open(path, O_WRONLY),
         fs.open(path, O_RDWR), errors.data());
  CHECK(result_in(errors) == std::vector<std::int32_t>{-EBADF, -EACCES, -EACCES, -EINVAL, -EINVAL,
                                                       -EINVAL, -EINVAL, 0, 0, -ERANGE, -ERANGE, 0,
                                                       -ERANGE, 0, -ERANGE});
  CHECK(inspect(fs.ref()).problems == "");
}

TEST_CASE(
    "array: stores of many blocks to one page, in runs and scattered, beyond the end of the file "
    "too, reach the file; so do the "
    "host's") {
  for (bool const scattered : {false, true}) {
    scratch_folder folder;
    auto const path = words(folder, 100);
    filesystem fs(small_config(4096, 16));
    int const fd = fs.open(path, O_RDWR);
    constexpr std::uint64_t count = scaled(2400, 800);
    auto wrong = zeroed<std::uint64_t>(1);
    launch(store_elements, 4, 64, fs.ref(), fd, count, scattered, wrong.data());
    CHECK(result_in(wrong)[0] == 0);
    CHECK(fs.close(fd) == 0);
    auto const bytes = pread_bytes(path, 0, ~0ull);
    REQUIRE(bytes.size() == count * 8);
    std::uint64_t bad = 0;
    for (std::uint64_t i = 0; i < count; ++i) {
      std::uint64_t value = 0;
      std::memcpy(&value, bytes.data() + i * 8, 8);
      bad += value != nth(i) ? 1 : 0;
    }
    CHECK(bad == 0);
    CHECK(fs.stats().bytes_written == count * 8);
    CHECK(inspect(fs.ref()).problems == "");
  }
}

TEST_CASE("array: stores touch the element's bytes only, also where elements straddle pages") {
  scratch_folder folder;
  auto const path = make_file(folder, "file", 4000);
  auto expected = pread_bytes(path, 0, 4000);
  filesystem fs(small_config(512, 16));
  int const fd = fs.open(path, O_RDWR);
  auto wrong = zeroed<std::uint64_t>(1);
  launch(store_triples, 1, 64, fs.ref(), fd, std::int64_t{1004}, std::uint64_t{150}, wrong.data());
  CHECK(result_in(wrong)[0] == 0);
  for (std::uint64_t i = 0; i < 150; ++i) {
    triple const t = nth_triple(i);
    std::memcpy(expected.data() + 1004 + i * 12, &t, 12);
  }
  CHECK(fs.close(fd) == 0);
  CHECK(pread_bytes(path, 0, 5000) == expected);
}

TEST_CASE(
    "array: an element that is in the cache is loaded there, in whichever way of its bucket the "
    "page is entered") {
  scratch_folder folder;
  // Three quarters of the frames for half of the buckets, and nothing has to go: whatever the order
  // of the reads, many pages find the first ways taken.
  constexpr std::uint64_t per_page = 64, frames = 4096, pages = 2 * frames * 3 / 4;
  filesystem fs(small_config(512, frames));
  int const fd = fs.open(words(folder, pages * per_page), O_RDONLY);
  auto wrong = zeroed<std::uint64_t>(1), near = zeroed<std::uint64_t>(1),
       further = zeroed<std::uint64_t>(1);
  launch(read_crowded, 16, 64, fs.ref(), fd, per_page, wrong.data());
  CHECK(result_in(wrong)[0] == 0);
  auto const before = fs.stats();
  auto const held = inspect(fs.ref());
  launch(read_seen, 16, 64, fs.ref(), fd, per_page, near.data(), further.data(), wrong.data());
  CHECK(result_in(wrong)[0] == 0);
  CHECK(result_in(near)[0] + result_in(further)[0] == held.ready);
  CHECK(result_in(further)[0] > 0);  // so such pages were read
  auto const after = fs.stats();
  // What is pinned to be read, or asked for, is counted.
  CHECK(after.hits == before.hits);
  CHECK(after.misses == before.misses);
  CHECK(after.waits == before.waits);
  CHECK(inspect(fs.ref()).problems == "");
}

TEST_CASE("array: a page that a whole warp comes back to stays while others need frames") {
  scratch_folder folder;
  constexpr std::uint64_t per_page = 64, pages = 70;
  auto const path = words(folder, pages * per_page);
  auto settings = small_config(512, 16);
  settings.policy = replacement::fifo;  // with which nobody's pages are spared
  filesystem fs(settings);
  auto step = zeroed<std::uint32_t>(1);
  auto wrong = zeroed<std::uint64_t>(1);
  launch(come_back, 2, 32, fs.ref(), fs.open(path, O_RDONLY), per_page, step.data(), wrong.data());
  CHECK(result_in(wrong)[0] == 0);
  CHECK(fs.stats().misses == pages);
  CHECK(inspect(fs.ref()).problems == "");
}

TEST_CASE(
    "array: whatever lanes do that stray, stop early and copy the array, no more than an eighth of "
    "the frames is kept, and none "
    "in the end") {
  scratch_folder folder;
  constexpr std::uint64_t per_page = 64;
  auto const path = words(folder, 160 * per_page);
  for (std::uint64_t const frames : {64, 24, 8}) {
    CAPTURE(frames);
    filesystem fs(small_config(512, frames));
    auto wrong = zeroed<std::uint64_t>(1);
    auto most_kept = zeroed<std::uint32_t>(1);
    launch(stay_and_stray, 4, 64, fs.ref(), fs.open(path, O_RDONLY), per_page, scaled(400, 30),
           seed(), wrong.data(), most_kept.data());
    CHECK(result_in(wrong)[0] == 0);
    // Each of the 8 warps counts for a moment before it sees that it must not.
    CHECK(result_in(most_kept)[0] >= 1);
    CHECK(result_in(most_kept)[0] <= frames / 8 + 8);
    CHECK(inspect(fs.ref()).problems == "");
  }
}

TEST_CASE("array: a warp with more arrays than frames reads through all of them, and by gread") {
  scratch_folder folder;
  constexpr std::uint64_t per_page = 64;
  auto const path = words(folder, 40 * per_page);
  filesystem fs(small_config(512, 8));
  auto bytes = zeroed<std::byte>(4 * per_page * 8);
  auto result = zeroed<ssize_t>(1);
  auto wrong = zeroed<std::uint64_t>(1);
  launch(many_arrays, 1, 32, fs.ref(), fs.open(path, O_RDONLY), per_page, bytes.data(),
         result.data(), wrong.data());
  CHECK(result_in(wrong)[0] == 0);
  CHECK(result_in(result)[0] == 4 * per_page * 8);
  CHECK(inspect(fs.ref()).problems == "");
}

TEST_CASE(
    "held_ptr: a page costs one look-up, whatever the number of its elements, and is let go") {
  scratch_folder folder;
  constexpr std::uint64_t warps = 4;
  constexpr std::uint64_t per_warp = 4096;  // 8 pages
  auto const path = words(folder, warps * per_warp);
  filesystem fs(small_config(4096, 16));
  int const fd = fs.open(path, O_RDONLY);
  auto sums = zeroed<std::uint64_t>(1);
  auto wrong = zeroed<std::uint64_t>(1);
  launch(sum_through_pointer, 2, 64, fs.ref(), fd, per_warp, sums.data(), wrong.data());
  std::uint64_t expected = 0;
  for (std::uint64_t i = 0; i < warps * per_warp; ++i) expected += nth(i);
  CHECK(result_in(sums)[0] == expected);
  CHECK(result_in(wrong)[0] == 0);
  auto const s = fs.stats();
  // The lanes of a warp may come to a page one by one: never more than once each.
  CHECK(s.misses >= 32);
  CHECK(s.hits + s.misses + s.waits <= 32 * 32);
  CHECK(inspect(fs.ref()).problems == "");
}

TEST_CASE(
    "held_ptr: pages that go and come while pointers look for them are never taken for others") {
  scratch_folder folder;
  constexpr std::uint64_t per_page = 64;
  auto const path = words(folder, 40 * per_page);
  auto settings = small_config(512, 24);
  filesystem fs(settings);
  auto wrong = zeroed<std::uint64_t>(1);
  launch(jump, 4, 64, fs.ref(), fs.open(path, O_RDONLY), per_page, scaled(2500, 100), seed(),
         wrong.data());
  CHECK(result_in(wrong)[0] == 0);
  CHECK(inspect(fs.ref()).problems == "");
}

TEST_CASE(
    "held_ptr: while every frame is held an access gets -ENOMEM, and goes on when they are let "
    "go") {
  scratch_folder folder;
  auto const path = words(folder, 64 * 10);
  auto settings = small_config(512, 8);
  settings.rpc_timeout_ms = 2000;
  filesystem fs(settings);
  auto errors = zeroed<std::int32_t>(65);
  launch(hold_everything, 1, 64, fs.ref(), fs.open(path, O_RDONLY), std::uint64_t{64},
         errors.data());
  auto expected = std::vector<std::int32_t>(65, 0);
  expected[0] = -ENOMEM;
  CHECK(result_in(errors) == expected);
  CHECK(inspect(fs.ref()).problems == "");
}

TEST_CASE(
    "array: the error of a fetch reaches every lane that waits for the page; the next access tries "
    "again") {
  scratch_folder folder;
  auto const path = words(folder, 1000);
  std::atomic<bool> fails{true};
  auto const faults = read_faults([&](std::uint64_t, std::uint64_t) {
    return fails.load() ? testing::fault_action::fail(ENODEV) : testing::fault_action::pass();
  });
  testing::filesystem fs(small_config(512, 8), faults);
  int const fd = fs.open(path, O_RDONLY);
  auto error = zeroed<std::int32_t>(1);
  auto value = zeroed<std::uint64_t>(1);
  launch(read_one, 1, 64, fs.ref(), fd, std::uint64_t{500}, error.data(), value.data());
  CHECK(result_in(error)[0] == -ENODEV);
  CHECK(result_in(value)[0] == 0);
  fails = false;
  launch(read_one, 1, 64, fs.ref(), fd, std::uint64_t{500}, error.data(), value.data());
  CHECK(result_in(error)[0] == 0);
  CHECK(result_in(value)[0] == nth(500));
  CHECK(inspect(fs.ref()).problems == "");
}

TEST_CASE("array: elements that a file has lost since it was opened are an error, not garbage") {
  scratch_folder folder;
  auto const path = words(folder, 1000);
  filesystem fs(small_config(512, 8));
  int const fd = fs.open(path, O_RDONLY);
  CHECK(::truncate(path.c_str(), 4000) == 0);
  auto error = zeroed<std::int32_t>(1);
  auto value = zeroed<std::uint64_t>(1);
  for (std::uint64_t const i : {500u, 505u, 999u}) {
    launch(read_one, 1, 64, fs.ref(), fd, i, error.data(), value.data());
    CHECK(result_in(error)[0] == -EIO);
    CHECK(result_in(value)[0] == 0);
  }
  launch(read_one, 1, 64, fs.ref(), fd, std::uint64_t{499}, error.data(), value.data());
  CHECK(result_in(error)[0] == 0);
  CHECK(result_in(value)[0] == nth(499));
}

TEST_CASE(
    "array: lanes that come together with different files, also one that is written, each get "
    "their own") {
  scratch_folder folder;
  auto const one = words(folder, 500);
  auto const other = file_of<std::uint64_t>(folder, "other", 0, 500,
                                            [](std::uint64_t i) { return nth(i + 1000000); });
  for (int const access : {O_RDONLY, O_RDWR}) {
    filesystem fs(small_config(512, 64));
    auto wrong = zeroed<std::uint64_t>(1);
    launch(mix_files, 2, 64, fs.ref(), fs.open(one, O_RDONLY), fs.open(other, access),
           wrong.data());
    CHECK(result_in(wrong)[0] == 0);
    CHECK(inspect(fs.ref()).problems == "");
  }
}

TEST_CASE(
    "array: what gftruncate has cut off is an error for views that only read, and a torn element "
    "is none at all") {
  scratch_folder folder;
  auto const path = words(folder, 1000);
  filesystem fs(small_config(512, 16));
  auto errors = zeroed<std::int32_t>(4);
  launch(load_across_truncation, 1, 32, fs.ref(), fs.open(path, O_RDONLY), fs.open(path, O_RDWR),
         std::int64_t{4000}, std::uint64_t{501}, errors.data());
  CHECK(result_in(errors) == std::vector<std::int32_t>{0, 0, -EIO, -EIO});

  auto const triples = file_of<triple>(folder, "triples", 0, 100, nth_triple);
  int const fd = fs.open(triples, O_RDONLY);
  CHECK(::truncate(triples.c_str(), 512) == 0);
  auto value = filled(std::vector{triple{1, 2, 3}});
  auto error = zeroed<std::int32_t>(1);
  launch(read_triple, 1, 32, fs.ref(), fd, std::uint64_t{42}, value.data(), error.data());
  CHECK(result_in(error)[0] == -EIO);
  triple const got = contents(value)[0];
  CHECK((got.a | got.b | got.c) == 0);
}

TEST_CASE("held_ptr: a file that became shorter gives -EIO from its first missing element on") {
  scratch_folder folder;
  auto const path = words(folder, 512);
  filesystem fs(small_config(512, 16));
  int const fd = fs.open(path, O_RDONLY);
  constexpr std::uint64_t left = 200;  // ends within a page
  REQUIRE(::truncate(path.c_str(), left * 8) == 0);
  auto value = zeroed<std::uint64_t>(1);
  auto error = zeroed<int>(1);
  for (std::uint64_t const i : {left - 1, left, left + 1, left + 100}) {
    CAPTURE(i);
    launch(read_held, 1, 32, fs.ref(), fd, i, value.data(), error.data());
    CHECK(result_in(error)[0] == (i < left ? 0 : -EIO));
    CHECK(result_in(value)[0] == (i < left ? nth(i) : 0));
  }
}
