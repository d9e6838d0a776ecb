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

#include <cstddef>
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

/// What goes wrong, one counter each.
struct faults {
  std::uint64_t not_alone;   ///< another group was inside
  std::uint64_t other_keys;  ///< a lane of the group has other keys
  std::uint64_t votes;       ///< a vote or shuffle gave what is not the group's
  std::uint64_t starved;     ///< a lane got no turn
};

struct first_way {};
struct second_way {};

/// What a warp's lanes see of each other, in shared memory.
struct warp_state {
  std::uint32_t inside;    ///< lanes of the group inside; 0: none
  std::uint32_t keys[32];  ///< of each lane's last passage
};

/// Passes the gate, and works inside as the library does: one lane waits, the others meet it.
/// `system` stands for the number of a filesystem.
template <class Way>
GPUFS_STAGE void pass(warp_state& state, std::uint64_t system, std::int32_t fd,
                      std::uint64_t random, faults& wrong) {
  atomic_ref<std::uint32_t, scope::block> key(state.keys[lane_id()]);
  std::uint32_t const mine = (std::is_same_v<Way, first_way> ? 0u : 8u) + std::uint32_t(fd) +
                             2 * static_cast<std::uint32_t>(system);
  key.store(mine, memory_order_relaxed);
  io::lane_gate<Way> const gate(reinterpret_cast<std::byte const*>(&wrong) + system, fd);
  converged_group const g = gate.group();
  atomic_ref<std::uint32_t, scope::block> inside(state.inside);
  if (g.thread_rank() == 0)
    count_if(inside.exchange(g.mask(), memory_order_relaxed) != 0, &wrong.not_alone);
  for (unsigned left = g.mask(); left != 0; left &= left - 1) {
    atomic_ref<std::uint32_t, scope::block> other(state.keys[base::lowest_lane(left)]);
    count_if(other.load(memory_order_relaxed) != mine, &wrong.other_keys);
  }
  bool pending = true;
  for (std::uint32_t turn = 0; g.any(pending); ++turn) {
    unsigned pause = 0;
    if (g.thread_rank() == turn % g.size()) backoff(pause, 1000);
    count_if(g.ballot(true) != (g.size() == 32 ? ~0u : (1u << g.size()) - 1), &wrong.votes);
    count_if(g.shfl(std::uint64_t{g.mask()} << 32 | turn, turn % g.size()) !=
                 (std::uint64_t{g.mask()} << 32 | turn),
             &wrong.votes);
    g.sync();
    if (draw(random) % 3 == 0) pending = false;
  }
  g.sync();
  if (g.thread_rank() == 0)
    count_if(inside.exchange(0, memory_order_relaxed) != g.mask(), &wrong.not_alone);
}

/// Makes a warp's state and gate ready, which have any bytes before. All threads of the block call.
__device__ void begin(warp_state& state) {
  if (lane_id() == 0) {
    state.inside = 0;
    io::warp_gate() = {~0u, 5, 77};
  }
  __syncthreads();
  io::reset_warp_gate();
  __syncthreads();
}

/// The last lane passes another way than the others, which come again and again until it has had
/// its turns.
__global__ void take_turns(std::uint64_t seed, faults* wrong) {
  constexpr std::uint32_t turns = 20, patience = 50 * turns;
  __shared__ warp_state state;
  __shared__ std::uint32_t had;
  if (threadIdx.x == 0) had = 0;
  begin(state);
  atomic_ref<std::uint32_t, scope::block> had_turns(had);
  std::uint64_t random = seed + blockIdx.x * 977 + threadIdx.x * 31;
  if (threadIdx.x == 31) {
    for (std::uint32_t n = 0; n < turns; ++n) {
      pass<second_way>(state, 0, 0, random, *wrong);
      had_turns.store(n + 1, memory_order_relaxed);
    }
    return;
  }
  std::uint32_t n = 0;
  for (; had_turns.load(memory_order_relaxed) < turns && n < patience; ++n) {
    unsigned wait = 0;
    for (std::uint64_t pauses = draw(random) % 4; pauses > 0; --pauses) backoff(wait, 1000);
    pass<first_way>(state, 0, 0, draw(random), *wrong);
  }
  count_if(n == patience, &wrong->starved);
}

/// How lanes of pass_apart() keep together.
enum class pace : std::uint32_t {
  vote,   ///< the whole warp votes in each round
  apart,  ///< never: some lanes are many passages ahead, and leave the kernel first
  alike,  ///< as apart, and all pass the same way: the whole warp may go through together
};

/// In each round, lanes pause for a time of their own, and some pass the gate, one way or the
/// other. shares[lane]: its passages.
__global__ void pass_apart(std::uint64_t seed, pace how, faults* wrong, std::uint64_t* passages) {
  __shared__ warp_state states[4];
  unsigned const thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  warp_state& state = states[thread / 32];
  begin(state);
  std::uint64_t random = seed + blockIdx.x * 977 + thread * 31;
  std::uint64_t passed = 0;
  for (std::uint32_t n = 0; n < rounds; ++n) {
    unsigned wait = 0;
    for (std::uint64_t pauses = draw(random) % 4; pauses > 0; --pauses) backoff(wait, 1000);
    std::uint64_t const from = how == pace::alike ? 1 : draw(random);
    auto const fd = static_cast<std::int32_t>(from % 8 == 0);
    std::uint64_t const way = how == pace::alike ? 1 : draw(random) % 4;
    if (way != 0) {
      ++passed;
      way == 1 ? pass<first_way>(state, from / 8 % 2, fd, random, *wrong)
               : pass<second_way>(state, from / 8 % 2, fd, random, *wrong);
    }
    if (how == pace::vote) {
      unsigned const lanes = __ballot_sync(~0u, passed <= rounds);
      count_if((lanes >> lane_id() & 1) == 0, &wrong->votes);
    }
  }
  atomic_ref<std::uint64_t>(*passages).fetch_add(passed, memory_order_relaxed);
}

void pass_all(pace how, dim3 block) {
  CAPTURE(seed());
  CAPTURE(block.x);
  auto wrong = zeroed<faults>(1);
  auto passages = zeroed<std::uint64_t>(1);
  launch(pass_apart, blocks, block, seed(), how, wrong.data(), passages.data());
  faults const found = result_in(wrong)[0];
  CHECK(found.not_alone == 0);
  CHECK(found.other_keys == 0);
  CHECK(found.votes == 0);
  CHECK(result_in(passages)[0] > std::uint64_t{blocks} * block.x * block.y * block.z * rounds / 2);
}

}  // namespace

TEST_CASE("lane gate: lanes that come apart go through in groups, one at a time") {
  pass_all(pace::vote, dim3(96));
}

TEST_CASE("lane gate: lanes that are many passages ahead keep no other one out") {
  pass_all(pace::apart, dim3(96));
  pass_all(pace::alike, dim3(96));
}

TEST_CASE("lane gate: a lane has its turn, however often others come again") {
  CAPTURE(seed());
  auto wrong = zeroed<faults>(1);
  launch(take_turns, blocks, 32, seed(), wrong.data());
  faults const found = result_in(wrong)[0];
  CHECK(found.starved == 0);
  CHECK(found.not_alone == 0);
  CHECK(found.votes == 0);
}

TEST_CASE("lane gate: blocks with a partial warp, and with three dimensions") {
  pass_all(pace::apart, dim3(80));
  pass_all(pace::vote, dim3(4, 8, 3));
  pass_all(pace::apart, dim3(5, 5, 4));
}
