// The sweep: a hand that passes over all frames in the order of their numbers, and takes those that
// the policy yields.
#pragma once

#include <gpufs/cache/page_table.hpp>

#include <cstdint>

namespace gpufs::cache {

/// Frames that are candidates for a warp's lanes, one each.
struct candidate_frame {
  bool valid;
  std::uint32_t frame;
};

/// The next `n` frames of the sweep; the calling lane gets number `rank` of them if it is below n.
/// All lanes of the team call.
template <class Team>
__device__ __forceinline__ candidate_frame sweep_candidate(handle::page_cache_ref const& c,
                                                           bool seeks, unsigned n, unsigned rank) {
  std::uint64_t at = 0;
  if (Team::lane() == 0)
    at = atomic_ref<std::uint64_t, scope::device>(*c.sweep_hand).fetch_add(n, memory_order_relaxed);
  candidate_frame mine{seeks,
                       static_cast<std::uint32_t>((Team::broadcast(at) + rank) % c.frame_count)};
  if (mine.valid) {
    for_each_policy([&]<class P>(replacement number, P) {
      if (c.policy == number) mine.valid = P::yields(c.headers[mine.frame]);
    });
  }
  return mine;
}

}  // namespace gpufs::cache
