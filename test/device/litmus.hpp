// Litmus tests: one kernel runs a shape, which is two sides of an order without a fence, in
// thousands of cells at once. Other warps pull host memory meanwhile. Each run counts its rounds
// and the outcomes that the order forbids.
#pragma once

#include <gpufs/base/copy.hpp>
#include <gpufs/base/mix64.hpp>
#include <gpufs/base/warp.hpp>
#include <gpufs/device.hpp>

#include <test/support/seed.hpp>
#include <test/support/settings.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace gpufs::test {

#if defined(__CUDACC__)
inline constexpr bool on_gpu = true;
#else
inline constexpr bool on_gpu = false;
#endif

/// Which side of a shape keeps no order. Such a run shows whether the shape can see a violation.
enum class broken { no, writer, reader };

/// Where the two sides of a cell run.
/// together  warps of one block, so on one multiprocessor
/// apart     neighbouring blocks, so on two multiprocessors nearly always
enum class placement { together, apart };

struct litmus_counts {
  std::uint64_t writes;
  std::uint64_t rounds;  ///< looks that succeeded: each could have had a forbidden outcome
  std::uint64_t forbidden;
};

/// What all shapes of a run share.
struct litmus_run {
  placement where;
  std::uint64_t seed;
  std::uint64_t rounds;  ///< of writers and of warps that pull, at most
  std::uint64_t ns;      ///< no round begins later
  bool only_writers;
  /// by group: writing warps that have ended. On the emulated device readers go on until then.
  std::uint32_t* ended;
  std::byte const* pulled;  ///< pinned memory for the warps that make load
  std::uint64_t pulled_bytes;
  std::byte* scratch;        ///< `load_bytes` for each warp of the grid
  std::uint32_t load_bytes;  ///< of one pull
};

enum class litmus_side { writer, reader, load };

/// The caller's role, and its cell in shapes that give one to each lane, or to each warp.
struct litmus_place {
  litmus_side side;
  std::uint32_t group;  ///< of one block, or of two neighbouring ones
  std::uint32_t lane_cell;
  std::uint32_t warp_cell;
};

inline constexpr unsigned litmus_threads = on_gpu ? 256 : 128;
/// Of four warps, one has writers, two have readers, and the rest pull.
inline constexpr unsigned warps_per_role_set = 4;
inline constexpr unsigned role_sets = litmus_threads / (warps_per_role_set * base::warp_size);

__device__ inline litmus_place place_here(placement where) {
  unsigned const set = threadIdx.x / (warps_per_role_set * base::warp_size);
  unsigned const part = threadIdx.x / base::warp_size % warps_per_role_set;
  bool const together = where == placement::together;
  unsigned const group = together ? blockIdx.x : blockIdx.x / 2;
  bool const may_write = together || blockIdx.x % 2 == 0;
  bool const may_read = together || blockIdx.x % 2 == 1;
  litmus_side const side = part == 0 && may_write                 ? litmus_side::writer
                           : (part == 1 || part == 2) && may_read ? litmus_side::reader
                                                                  : litmus_side::load;
  unsigned const warp_cell = group * role_sets + set;
  return {side, group, warp_cell * base::warp_size + lane_id(), warp_cell};
}

/// Waits up to 2 us, so that the sides meet in every phase of each other. On the emulated device
/// atomics are preempted, and a thread that waits would come last.
__device__ inline void pause_at_random(std::uint64_t random) {
  if constexpr (on_gpu) {
    unsigned state = static_cast<unsigned>(random) % 2048;
    backoff(state);
  }
}

/// A pull as the library makes it: loads from host memory and stores to GPU memory. All lanes of a
/// warp call.
__device__ inline void make_load(litmus_run const& run, std::uint64_t random) {
  std::uint64_t const from = base::warp_broadcast(random) % (run.pulled_bytes / run.load_bytes);
  base::warp_pull(run.scratch + std::uint64_t(base::warp_number()) * run.load_bytes,
                  run.pulled + from * run.load_bytes, 0, run.load_bytes, run.load_bytes,
                  {nullptr, 0, 0});
}

/// Whether the caller's warp begins round `i`. Looks at clock and writers in one round of 16.
/// `alone`: the writers had ended at the last look. All lanes of a warp call.
__device__ inline bool goes_on(litmus_run const& run, litmus_place const& at, std::uint64_t i,
                               std::uint64_t start, bool& alone) {
  if (at.side != litmus_side::reader && i >= run.rounds) return false;
  if (i % 16 != 0) return true;
  if constexpr (on_gpu) return !__any_sync(base::all_lanes, device_clock_ns() - start > run.ns);
  if (at.side != litmus_side::reader) return true;
  if (alone) return false;
  std::uint32_t ended = 0;
  if (lane_id() == 0)
    ended =
        atomic_ref<std::uint32_t, scope::device>(run.ended[at.group]).load(memory_order_acquire);
  alone = base::warp_broadcast(ended) == role_sets;
  return true;
}

/// Each side of the shape acts in rounds. A shape has write() and read(), which take the place, a
/// random number and the counts. All lanes of a warp call them.
template <class Shape>
__global__ void __launch_bounds__(litmus_threads, 4)
    litmus(Shape const shape, litmus_run const run, litmus_counts* total) {
  litmus_place const at = place_here(run.where);
  std::uint64_t const thread = std::uint64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  litmus_counts mine{};
  std::uint64_t const start = device_clock_ns();
  bool alone = false;
  for (std::uint64_t i = 0; goes_on(run, at, i, start, alone); ++i) {
    std::uint64_t const random = base::mix64(run.seed + (thread << 40 | i));
    if (at.side == litmus_side::writer) {
      shape.write(at, random, mine);
    } else if (run.only_writers) {
      break;
    } else if (at.side == litmus_side::reader) {
      shape.read(at, random, mine);
    } else {
      make_load(run, random);
    }
  }
  __syncwarp();
  if (at.side == litmus_side::writer && lane_id() == 0)
    atomic_ref<std::uint32_t, scope::device>(run.ended[at.group])
        .fetch_add(1, memory_order_release);
  auto const add = [](std::uint64_t& to, std::uint64_t n) {
    atomic_ref<std::uint64_t, scope::device>(to).fetch_add(n, memory_order_relaxed);
  };
  add(total->writes, mine.writes);
  add(total->rounds, mine.rounds);
  add(total->forbidden, mine.forbidden);
}

/// Runs of the suite, about. Each has the same part of the time.
inline constexpr unsigned litmus_runs = 50;

/// Seconds for one run on a GPU: its part of GPUFS_LITMUS_SECONDS, by default of 5.
inline double litmus_seconds() {
  char const* const text = std::getenv("GPUFS_LITMUS_SECONDS");
  double const all = text != nullptr ? std::atof(text) : 5;
  return (all > 0 ? all : 5) / litmus_runs;
}

/// Launches the shape of new cells once, for at most `seconds`. The writers have acted once before
/// the others begin.
template <class Cells>
litmus_counts launch_litmus(placement where, double seconds, std::uint64_t number) {
  unsigned const blocks = on_gpu ? current_device().multiprocessors * 4 : 4;
  unsigned const groups = where == placement::together ? blocks : blocks / 2;
  unsigned const warp_cells = groups * role_sets;
  std::uint32_t const load_bytes = on_gpu ? 4096 : 512;
  std::uint64_t const warps = std::uint64_t(blocks) * litmus_threads / base::warp_size;
  pinned_buffer<std::byte> pulled(load_bytes * 1024);
  pulled.fill_zero();
  buffer<std::byte> scratch(warps * load_bytes);
  buffer<litmus_counts> total(1);
  total.fill_zero();
  buffer<std::uint32_t> ended(groups * 2);  // for each of the two launches
  ended.fill_zero();
  Cells cells(Cells::by_warp ? warp_cells : warp_cells * base::warp_size);
  litmus_run run{.where = where,
                 .seed = base::mix64(seed() + number),
                 .rounds = 1,
                 .ns = on_gpu ? static_cast<std::uint64_t>(seconds * 1e9) : ~0ull,
                 .only_writers = true,
                 .ended = ended.data(),
                 .pulled = pulled.data(),
                 .pulled_bytes = pulled.bytes(),
                 .scratch = scratch.data(),
                 .load_bytes = load_bytes};
  auto const shape = cells.shape();
  launch(litmus<decltype(cells.shape())>, blocks, litmus_threads, shape, run, total.data());
  run.only_writers = false;
  run.ended += groups;
  run.rounds = on_gpu ? ~0ull : scaled(100, 20);
  launch(litmus<decltype(cells.shape())>, blocks, litmus_threads, shape, run, total.data());
  this_thread_stream().synchronize();
  litmus_counts counts;
  total.copy_to_host(&counts, 1);
  counts.forbidden += cells.end();
  return counts;
}

/// Runs a shape for its part of the time, in launches of at most a second, and prints the counts.
template <class Cells>
litmus_counts run_litmus(char const* name, char const* variant, placement where) {
  litmus_counts sum{};
  double left = litmus_seconds();
  for (std::uint64_t launches = 0; launches == 0 || (on_gpu && left > 0); ++launches) {
    litmus_counts const c = launch_litmus<Cells>(where, std::min(left, 1.0), launches);
    sum.writes += c.writes;
    sum.rounds += c.rounds;
    sum.forbidden += c.forbidden;
    left -= 1;
  }
  std::printf("litmus %-12s %-15s %-8s writes %12llu  rounds %12llu  forbidden %llu\n", name,
              variant, where == placement::together ? "together" : "apart",
              static_cast<unsigned long long>(sum.writes),
              static_cast<unsigned long long>(sum.rounds),
              static_cast<unsigned long long>(sum.forbidden));
  std::fflush(stdout);
  return sum;
}

/// The order holds in every round.
template <class Cells>
void check_litmus(char const* name) {
  for (auto const where : {placement::together, placement::apart}) {
    CAPTURE(name);
    CAPTURE(where == placement::together);
    litmus_counts const c = run_litmus<Cells>(name, "", where);
    CHECK(c.forbidden == 0);
    CHECK(c.writes > 0);
    CHECK(c.rounds > 0);
  }
}

/// Prints how often a variant without the order goes wrong. It proves nothing if it never does. On
/// the emulated device such a variant would only be a data race.
template <class Cells>
void show_broken(char const* name, char const* variant) {
  if constexpr (on_gpu && sizeof(Cells) != 0) {
    for (auto const where : {placement::together, placement::apart})
      run_litmus<Cells>(name, variant, where);
  } else {
    static_cast<void>(name), static_cast<void>(variant);
  }
}

}  // namespace gpufs::test
