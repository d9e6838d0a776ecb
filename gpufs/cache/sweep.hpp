// Replacement by a global sweep over all frames in the order of their numbers: the FIFO of the original GPUfs, and CLOCK (paper 003),
// which passes over a frame that was hit since the hand's last visit.
#pragma once

#include <gpufs/cache/page_table.hpp>

#include <cstdint>

namespace gpufs {

struct taken_frame {
  std::int64_t frame;  ///< owned by the caller in phase evicting, out of the page table; or -1
  bool evicted;        ///< it held a page
};

/// Takes the next frame that nobody has pinned. All lanes call. Looks at no more than 64 frames and never waits: a caller that gets
/// none finishes the pages it holds, if any, before it asks again.
__device__ __forceinline__ taken_frame sweep(page_cache_ref const& c) {
  std::uint32_t frame = 0;
  phase was = phase::evicting;
  if (lane_id() == 0) {
    for (unsigned i = 0; i < 64 && was == phase::evicting; ++i) {
      frame = atomic_ref<std::uint64_t, scope::device>(*c.sweep_hand).fetch_add(1, memory_order_relaxed) % c.frame_count;
      if (c.policy == replacement::clock &&
          atomic_ref<std::uint32_t, scope::device>(c.headers[frame].referenced).exchange(0, memory_order_relaxed) != 0) {
        continue;
      }
      was = claim(c.headers[frame]);
    }
  }
  frame = warp_broadcast(frame);
  was = static_cast<phase>(warp_broadcast(static_cast<std::uint32_t>(was)));
  if (was == phase::evicting) return {-1, false};
  if (was == phase::ready) remove(c, frame);
  return {frame, was == phase::ready};
}

}  // namespace gpufs
