// Replacement by a global sweep over all frames in the order of their numbers: the FIFO of the
// original GPUfs, and CLOCK (paper 003), which passes over a frame that was hit since the hand's
// last visit.
#pragma once

#include <gpufs/cache/page_table.hpp>

#include <cstdint>

namespace gpufs {

/// Frames that are candidates for a warp's lanes, one each.
struct candidate_frame {
  bool valid;
  std::uint32_t frame;
};

/// The next `n` frames of the sweep; the calling lane gets number `rank` of them if it is below n.
/// All lanes of the team call.
template <class Team>
__device__ __forceinline__ candidate_frame sweep_candidate(page_cache_ref const& c, bool seeks,
                                                           unsigned n, unsigned rank) {
  std::uint64_t at = 0;
  if (Team::lane() == 0)
    at = atomic_ref<std::uint64_t, scope::device>(*c.sweep_hand).fetch_add(n, memory_order_relaxed);
  candidate_frame mine{seeks,
                       static_cast<std::uint32_t>((Team::broadcast(at) + rank) % c.frame_count)};
  if (mine.valid && c.policy == replacement::clock) {
    atomic_ref<std::uint32_t, scope::device> referenced(c.headers[mine.frame].referenced);
    mine.valid = referenced.exchange(0, memory_order_relaxed) == 0;
  }
  return mine;
}

}  // namespace gpufs
