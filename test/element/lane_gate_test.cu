// The gate of a warp: one group of lanes inside at a time, all of them with the same keys, each
// lane gets in, and votes and shuffles of the group are its own. docs/memory-model.md, "Groups of
// lanes".
#include <gpufs/gpufs.hpp>
#include <gpufs/io/element/lane_gate.hpp>

#include <test/support/device_buffers.hpp>
#include <test/support/elements.hpp>
#include <test/support/seed.hpp>
#include <test/support/settings.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <type_traits>

using namespace gpufs;
using namespace gpufs::test;

namespace {

#if defined(GPUFS_EMULATED)
constexpr unsigned blocks = 4;
constexpr std::uint32_t rounds = scaled(40, 20);
#else
constexpr unsigned blocks = 264;
constexpr std::uint32_t rounds = 400;
#endif
constexpr unsigned threads = 96;

/// What goes wrong, one counter each.
struct faults {
  std::uint64_t not_alone;   ///< another group was inside
  std::uint64_t other_keys;  ///< a lane of the group has other keys
  std::uint64_t votes;       ///< a vote or shuffle gave what is not the group's
};

struct first_way {};
struct second_way {};

/// What a warp's lanes see of each other, in shared memory.
struct warp_state {
  std::uint32_t inside;    ///< lanes of the group inside; 0: none
  std::uint32_t keys[32];  ///< of each lane's last passage
};

__device__ void count(std::uint64_t& fault, bool wrong) {
  if (wrong) atomic_ref<std::uint64_t>(fault).fetch_add(1, memory_order_relaxed);
}

/// Passes the gate, and works inside as the library does: one lane waits, the others meet it.
template <class Way>
GPUFS_STAGE void pass(warp_state& state, std::int32_t fd, std::uint64_t random, faults& wrong) {
  atomic_ref<std::uint32_t, scope::block> key(state.keys[lane_id()]);
  std::uint32_t const mine = (std::is_same_v<Way, first_way> ? 0u : 8u) + std::uint32_t(fd);
  key.store(mine, memory_order_relaxed);
  io::lane_gate<Way> const gate(&wrong, fd);
  converged_group const g = gate.group();
  atomic_ref<std::uint32_t, scope::block> inside(state.inside);
  if (g.thread_rank() == 0)
    count(wrong.not_alone, inside.exchange(g.mask(), memory_order_relaxed) != 0);
  for (unsigned left = g.mask(); left != 0; left &= left - 1) {
    atomic_ref<std::uint32_t, scope::block> other(state.keys[base::lowest_lane(left)]);
    count(wrong.other_keys, other.load(memory_order_relaxed) != mine);
  }
  bool pending = true;
  for (std::uint32_t turn = 0; g.any(pending); ++turn) {
    unsigned pause = 0;
    if (g.thread_rank() == turn % g.size()) backoff(pause, 1000);
    count(wrong.votes, g.ballot(true) != (g.size() == 32 ? ~0u : (1u << g.size()) - 1));
    count(wrong.votes, g.shfl(std::uint64_t{g.mask()} << 32 | turn, turn % g.size()) !=
                           (std::uint64_t{g.mask()} << 32 | turn));
    g.sync();
    if (draw(random) % 3 == 0) pending = false;
  }
  g.sync();
  if (g.thread_rank() == 0)
    count(wrong.not_alone, inside.exchange(0, memory_order_relaxed) != g.mask());
}

/// In each round, lanes pause for a time of their own, some pass the gate one way or the other, and
/// then the whole warp votes.
__global__ __launch_bounds__(threads) void pass_apart(std::uint64_t seed, faults* wrong,
                                                      std::uint64_t* passages) {
  __shared__ warp_state states[threads / 32];
  warp_state& state = states[threadIdx.x / 32];
  if (lane_id() == 0) state.inside = 0;
  io::reset_warp_gate();
  __syncwarp();
  std::uint64_t random = seed + blockIdx.x * 977 + threadIdx.x * 31;
  std::uint64_t passed = 0;
  for (std::uint32_t n = 0; n < rounds; ++n) {
    unsigned wait = 0;
    for (std::uint64_t pauses = draw(random) % 4; pauses > 0; --pauses) backoff(wait, 1000);
    auto const fd = static_cast<std::int32_t>(draw(random) % 8 == 0);
    std::uint64_t const way = draw(random) % 4;
    if (way != 0) {
      ++passed;
      way == 1 ? pass<first_way>(state, fd, random, *wrong)
               : pass<second_way>(state, fd, random, *wrong);
    }
    if (__any_sync(~0u, passed > rounds) != 0) break;
  }
  atomic_ref<std::uint64_t>(*passages).fetch_add(passed, memory_order_relaxed);
}

}  // namespace

TEST_CASE("lane gate: lanes that come apart go through in groups, one at a time") {
  CAPTURE(seed());
  auto wrong = zeroed<faults>(1);
  auto passages = zeroed<std::uint64_t>(1);
  launch(pass_apart, blocks, threads, seed(), wrong.data(), passages.data());
  faults const found = result_in(wrong)[0];
  CHECK(found.not_alone == 0);
  CHECK(found.other_keys == 0);
  CHECK(found.votes == 0);
  CHECK(result_in(passages)[0] > std::uint64_t{blocks} * threads * rounds / 2);
}
