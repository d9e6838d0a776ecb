// Lanes of a warp that come to reads at different times, or not at all, then vote together: no lane
// is left behind, all values are right. docs/memory-model.md, "Groups of lanes".
#include <gpufs/gpufs.hpp>

#include <test/support/cache_state.hpp>
#include <test/support/device_buffers.hpp>
#include <test/support/elements.hpp>
#include <test/support/files.hpp>
#include <test/support/reads.hpp>
#include <test/support/seed.hpp>
#include <test/support/settings.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include <fcntl.h>

namespace cg = cooperative_groups;
using namespace gpufs;
using namespace gpufs::test;

namespace {

#if defined(GPUFS_EMULATED)
constexpr unsigned blocks = 2;
constexpr std::uint32_t rounds = scaled(30, 10);
#else
constexpr unsigned blocks = 64;
constexpr std::uint32_t rounds = 200;
#endif
constexpr unsigned threads = 128;

enum class way : std::uint32_t { array, pointer, either };

/// In each round every lane pauses for a time of its own, then reads a random word: mostly close to
/// the one before, so that some lanes have their page already and others wait for the host. If
/// lanes may skip, each goes without every fourth read. Then the whole warp votes.
template <way Way>
__global__ __launch_bounds__(threads) void read_apart(fs_ref fs, int fd,
                                                      std::uint64_t const* expected,
                                                      std::uint64_t seed, bool may_skip,
                                                      std::uint64_t* wrong) {
  io_context io(fs, cg::this_thread_block());
  array<std::uint64_t const> const a(io, fd);
  auto const pointer = a.pointer(0);
  std::uint64_t random = seed + blockIdx.x * 977 + threadIdx.x * 31, at = 0, bad = 0;
  for (std::uint32_t n = 0; n < rounds; ++n) {
    if (draw(random) % 4 == 0) at = draw(random);
    at = (at + 1) % a.size();
    unsigned state = 0;
    for (std::uint64_t pauses = draw(random) % 4; pauses > 0; --pauses) backoff(state, 1000);
    if (!may_skip || draw(random) % 4 != 0) {
      bool const by_array = Way == way::either ? draw(random) % 2 == 0 : Way == way::array;
      std::uint64_t const value =
          by_array ? a[at] : static_cast<std::uint64_t>(pointer[std::int64_t(at)]);
      bad += value != expected[at];
    }
    if (__any_sync(~0u, bad > rounds) != 0) break;
  }
  pointer.release();
  if (a.error() != 0 || pointer.error() != 0) ++bad;
  if (bad != 0) atomic_ref<std::uint64_t>(*wrong).fetch_add(bad, memory_order_relaxed);
}

/// 12 bytes, so that some lie in two pages.
struct triple {
  std::uint32_t part[3];
};

/// The same with elements that may lie in two pages, loaded, stored and added to.
__global__ __launch_bounds__(threads) void straddle_apart(fs_ref fs, int fd,
                                                          std::uint32_t const* expected,
                                                          std::uint64_t seed, int sums_fd,
                                                          std::uint64_t* wrong) {
  io_context io(fs, cg::this_thread_block());
  array<triple const> const a(io, fd);
  array<triple> const b(io, sums_fd, 4096, gridDim.x * std::uint64_t{blockDim.x});
  array<std::uint32_t> const sums(io, sums_fd, 0, 1024);
  auto const lane = blockIdx.x * std::uint64_t{blockDim.x} + threadIdx.x;
  std::uint64_t random = seed + lane * 31, bad = 0;
  for (std::uint32_t n = 0; n < rounds; ++n) {
    unsigned state = 0;
    for (std::uint64_t pauses = draw(random) % 4; pauses > 0; --pauses) backoff(state, 1000);
    std::uint64_t const at = draw(random) % a.size();
    switch (draw(random) % 4) {
      case 0: sums.fetch_add(lane % 1024, 1); break;
      case 1: b.store(lane, {{std::uint32_t(lane), n, 7}}); break;
      case 2: {
        triple const value = a[at];
        for (unsigned i = 0; i < 3; ++i) bad += value.part[i] != expected[at * 3 + i];
        break;
      }
      default: break;
    }
    if (__any_sync(~0u, bad > rounds) != 0) break;
  }
  if (a.error() != 0 || b.error() != 0 || sums.error() != 0) ++bad;
  if (bad != 0) atomic_ref<std::uint64_t>(*wrong).fetch_add(bad, memory_order_relaxed);
}

/// Words of a lane in write_apart().
constexpr std::uint64_t words_of_lane = 700;

/// The same with stores, each lane to words of its own, of which some lie on pages that other lanes
/// hold. last[i]: what was stored to word i last.
__global__ __launch_bounds__(threads) void write_apart(fs_ref fs, int fd, std::uint64_t seed,
                                                       bool may_skip, std::uint64_t* last,
                                                       std::uint64_t* wrong) {
  io_context io(fs, cg::this_thread_block());
  array<std::uint64_t> const a(io, fd);
  auto const lane = blockIdx.x * std::uint64_t{blockDim.x} + threadIdx.x;
  auto const pointer = a.writer(lane * words_of_lane);
  std::uint64_t random = seed + lane * 31, at = 0, bad = 0;
  for (std::uint32_t n = 0; n < rounds; ++n) {
    if (draw(random) % 4 == 0) at = draw(random);
    at = (at + 1) % words_of_lane;
    unsigned state = 0;
    for (std::uint64_t pauses = draw(random) % 4; pauses > 0; --pauses) backoff(state, 1000);
    std::uint64_t const value = draw(random);
    if (!may_skip || draw(random) % 4 != 0) {
      pointer.store(std::int64_t(at), value);
      last[lane * words_of_lane + at] = value;
      if (n % 16 == 0) bad += pointer.load(std::int64_t(at)) != value;
    }
    if (__any_sync(~0u, bad > rounds) != 0) break;
  }
  pointer.release();
  if (a.error() != 0 || pointer.error() != 0) ++bad;
  if (bad != 0) atomic_ref<std::uint64_t>(*wrong).fetch_add(bad, memory_order_relaxed);
}

struct trial {
  way by;
  std::uint64_t frames;
  std::uint64_t registered_memory = 0;
  bool may_skip = false;
};

void read_all(trial const& t) {
  CAPTURE(seed());
  CAPTURE(t.frames);
  CAPTURE(t.registered_memory);
  CAPTURE(t.may_skip);
  constexpr std::uint64_t page = 4096, pages = 256;
  scratch_folder folder;
  std::string const path = make_file(folder, "a", pages * page, 1);
  auto c = small_config(page, t.frames);
  c.registered_memory = t.registered_memory;
  c.file_window_size = 256 << 10;
  filesystem fs(c);
  int const fd = fs.open(path, O_RDONLY);
  REQUIRE(fd > 0);
  auto const bytes = pread_bytes(path, 0, pages * page);
  std::vector<std::uint64_t> words(bytes.size() / 8);
  std::memcpy(words.data(), bytes.data(), bytes.size());
  auto const expected = filled(words);
  auto wrong = zeroed<std::uint64_t>(1);
  auto const kernel = t.by == way::array     ? read_apart<way::array>
                      : t.by == way::pointer ? read_apart<way::pointer>
                                             : read_apart<way::either>;
  launch(kernel, blocks, threads, fs.ref(), fd, expected.data(), seed(), t.may_skip, wrong.data());
  CHECK(result_in(wrong)[0] == 0);
  CHECK(fs.close(fd) == 0);
  CHECK(inspect(fs.ref()).problems == "");
}

}  // namespace

TEST_CASE("lanes apart: a[i], with file windows and without, many frames and few") {
  for (bool const may_skip : {false, true})
    for (std::uint64_t const registered : {std::uint64_t{0}, std::uint64_t{64} << 20})
      for (std::uint64_t const frames : {32ull, 512ull})
        read_all({way::array, frames, registered, may_skip});
}

TEST_CASE("lanes apart: reads by held_ptr, and by either") {
  // Each lane holds a page: fewer frames than lanes would leave some without.
  for (bool const may_skip : {false, true})
    for (way const by : {way::pointer, way::either})
      read_all({by, 2 * blocks * threads, 0, may_skip});
}

TEST_CASE("lanes apart: stores by held_writer") {
  CAPTURE(seed());
  for (bool const may_skip : {false, true}) {
    CAPTURE(may_skip);
    constexpr std::uint64_t page = 4096, bytes = blocks * threads * words_of_lane * 8;
    scratch_folder folder;
    std::string const path = make_file(folder, "a", bytes, 1);
    filesystem fs(small_config(page, 2 * blocks * threads));
    int const fd = fs.open(path, O_RDWR);
    std::vector<std::uint64_t> words(bytes / 8);
    std::memcpy(words.data(), pread_bytes(path, 0, bytes).data(), bytes);
    auto const last = filled(words);
    auto const wrong = zeroed<std::uint64_t>(1);
    launch(write_apart, blocks, threads, fs.ref(), fd, seed(), may_skip, last.data(), wrong.data());
    CHECK(result_in(wrong)[0] == 0);
    CHECK(fs.close(fd) == 0);
    auto const expected = result_in(last);
    auto const written = pread_bytes(path, 0, bytes);
    CHECK(std::memcmp(written.data(), expected.data(), bytes) == 0);
    CHECK(inspect(fs.ref()).problems == "");
  }
}

TEST_CASE("lanes apart: elements in two pages, loaded, stored and added to") {
  CAPTURE(seed());
  scratch_folder folder;
  constexpr std::uint64_t page = 4096;
  std::string const path = make_file(folder, "a", 96 * page, 1);
  auto const bytes = pread_bytes(path, 0, 96 * page);
  std::vector<std::uint32_t> parts(bytes.size() / 4);
  std::memcpy(parts.data(), bytes.data(), bytes.size());
  filesystem fs(small_config(page, 64));
  int const fd = fs.open(path, O_RDONLY);
  int const sums_fd = fs.open(folder / "sums", O_RDWR | O_CREAT);
  REQUIRE(sums_fd > 0);
  auto const expected = filled(parts);
  auto const wrong = zeroed<std::uint64_t>(1);
  launch(straddle_apart, blocks, threads, fs.ref(), fd, expected.data(), seed(), sums_fd,
         wrong.data());
  CHECK(result_in(wrong)[0] == 0);
  CHECK(fs.close(fd) == 0);
  CHECK(fs.close(sums_fd) == 0);
  auto const written = pread_bytes(folder / "sums", 0, ~0ull);
  std::vector<std::uint32_t> words(written.size() / 4);
  std::memcpy(words.data(), written.data(), words.size() * 4);
  REQUIRE(words.size() > 1024);
  std::uint64_t adds = 0;
  for (unsigned i = 0; i < 1024; ++i) adds += words[i];
  CHECK(adds > blocks * threads);  // a quarter of all rounds
  for (std::uint64_t at = 1024; at + 3 <= words.size(); at += 3) {
    std::uint32_t const lane = words[at];
    bool const untouched = words[at] == 0 && words[at + 1] == 0 && words[at + 2] == 0;
    CHECK((untouched || (lane == (at - 1024) / 3 && words[at + 2] == 7)));
  }
  CHECK(inspect(fs.ref()).problems == "");
}
