// Threads that come to the begin or the end of a context at different times: those that return
// early, and those that come from accesses in which others still wait.
#include <gpufs/gpufs.hpp>

#include <test/support/cache_state.hpp>
#include <test/support/device_buffers.hpp>
#include <test/support/elements.hpp>
#include <test/support/seed.hpp>
#include <test/support/settings.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <string>

#include <fcntl.h>

namespace cg = cooperative_groups;
using namespace gpufs;
using namespace gpufs::test;

namespace {

constexpr unsigned blocks = 4;
constexpr unsigned threads = 96;

/// Reads words by single threads, which leave one after the other, from several places.
__device__ void read_and_leave(array<std::uint64_t const> const& a, std::uint64_t const* expected,
                               std::uint64_t random, std::uint64_t* wrong) {
  for (unsigned n = 0; n < 12; ++n) {
    std::uint64_t const at = draw(random) % a.size();
    count_if(a[at] != expected[at], wrong);
    if (draw(random) % 4 == 0) return;
  }
  count_if(a.error() != 0, wrong);
}

template <class Group>
__device__ void use(fs_ref const& fs, Group const& group, int fd, std::uint64_t const* expected,
                    std::uint64_t seed, std::uint64_t* wrong) {
  io_context io(fs, group);
  array<std::uint64_t const> const a(io, fd);
  std::uint64_t random = seed + blockIdx.x * 977 + threadIdx.x * 31;
  if (draw(random) % 3 == 0) return;
  read_and_leave(a, expected, random, wrong);
  if (draw(random) % 2 == 0) {
    count_if(a.error() != 0, wrong);
    return;
  }
  read_and_leave(a, expected, draw(random), wrong);
  if (threadIdx.x % 32 != 0) return;
  count_if(a[0] != expected[0], wrong);
}

__global__ void by_blocks(fs_ref fs, int fd, std::uint64_t const* expected, std::uint64_t seed,
                          std::uint64_t* wrong) {
  use(fs, cg::this_thread_block(), fd, expected, seed, wrong);
}
__global__ void by_warps(fs_ref fs, int fd, std::uint64_t const* expected, std::uint64_t seed,
                         std::uint64_t* wrong) {
  use(fs, cg::tiled_partition<32>(cg::this_thread_block()), fd, expected, seed, wrong);
}

/// Makes contexts one after the other, and within each other, behind accesses from which lanes come
/// at different times.
__global__ void contexts_in_a_row(fs_ref fs, int fd, std::uint64_t const* expected,
                                  std::uint64_t seed, std::uint64_t* wrong) {
  auto const block = cg::this_thread_block();
  std::uint64_t random = seed + blockIdx.x * 977 + threadIdx.x * 31;
  io_context whole(fs, block);
  array<std::uint64_t const> const a(whole, fd);
  for (unsigned n = 0; n < scaled(40u, 10u); ++n) {
    unsigned state = 0;
    for (std::uint64_t pauses = draw(random) % 4; pauses > 0; --pauses) backoff(state, 1000);
    std::uint64_t const at = draw(random) % a.size();
    if (draw(random) % 4 != 0) count_if(a[at] != expected[at], wrong);
    io_context part(fs, cg::tiled_partition<32>(block));
    array<std::uint64_t const> const b(part, fd);
    if (draw(random) % 4 != 0) count_if(b[at] != expected[at], wrong);
    if (n % 4 != 0) continue;
    io_context again(fs, block);
    array<std::uint64_t const> const c(again, fd);
    if (draw(random) % 4 != 0) count_if(c[at] != expected[at], wrong);
  }
  count_if(a.error() != 0, wrong);
}

/// Opens a file of values, calls launch_all(fs, descriptor, values, counter of wrong ones), checks.
template <class Launch>
void check_contexts(Launch const& launch_all) {
  CAPTURE(seed());
  scratch_folder folder;
  auto const values = counted_up(64 * 512);
  auto const path = file_of(folder, values);
  filesystem fs(small_config(4096, 64));
  int const fd = fs.open(path, O_RDONLY);
  REQUIRE(fd > 0);
  auto const expected = filled(values);
  auto const wrong = zeroed<std::uint64_t>(1);
  launch_all(fs.ref(), fd, expected.data(), wrong.data());
  CHECK(result_in(wrong)[0] == 0);
  CHECK(fs.close(fd) == 0);
  CHECK(inspect(fs.ref()).problems == "");
}

}  // namespace

TEST_CASE("early return: threads of blocks and of warps leave their context apart") {
  check_contexts([](fs_ref const& fs, int fd, auto* expected, std::uint64_t* wrong) {
    for (std::uint64_t round = 0; round < scaled(20u, 5u); ++round) {
      launch(by_blocks, blocks, threads, fs, fd, expected, seed() + round, wrong);
      launch(by_warps, blocks, threads, fs, fd, expected, seed() - round, wrong);
    }
  });
}

TEST_CASE("contexts behind accesses from which lanes come at different times") {
  check_contexts([](fs_ref const& fs, int fd, auto* expected, std::uint64_t* wrong) {
    launch(contexts_in_a_row, blocks, threads, fs, fd, expected, seed(), wrong);
  });
}
