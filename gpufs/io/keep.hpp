// Pages that stay pinned for a warp which has come back to them, as array's elements do: an eighth
// of the frames at most, whoever keeps them.
#pragma once

#include <gpufs/cache/peek.hpp>
#include <gpufs/fs_ref.hpp>
#include <gpufs/io/lane_access.hpp>
#include <gpufs/warp.hpp>

#include <cstdint>

namespace gpufs::detail {

/// Of how many frames one may be kept, over all arrays, threads and kernels: writers may hold half
/// of them, and the rest is for those who wait.
inline constexpr std::uint32_t frames_per_kept = 8;

/// How many lanes keep a frame. 0 and not: one of fs_ref::kept_frames.
__device__ __forceinline__ atomic_ref<std::uint32_t, scope::device> keepers(fs_ref const& fs,
                                                                            frame_header const* h) {
  return atomic_ref<std::uint32_t, scope::device>(fs.keepers[h - fs.cache.headers]);
}

/// Pins the frame that all 32 lanes have seen, each in state `seen`, once for each of them, if it
/// holds the same page still and no eighth of the frames is kept yet. Returns whether it is kept
/// now; if not, nothing is pinned. All lanes of a warp call together. Each gives its pin back by
/// unkeep().
///
/// A frame counts from before its first keeper counts until after its last one does not, so never
/// more are kept than are counted: who finds the frame counted gives his own count back, and of
/// those who leave it the one who takes its keepers to 0 gives back the frame's.
GPUFS_STAGE inline bool keep_seen(fs_ref const* handle, frame_header* header, std::uint64_t seen) {
  fs_ref const& fs = *handle;
  std::uint64_t const generation = seen >> phase_shift;
  bool const together =
      __all_sync(all_lanes,
                 generation ==
                     __shfl_sync(all_lanes, static_cast<unsigned long long>(generation), 0)) != 0;
  std::uint32_t kept = 0;
  if (together && lane_id() == 0) {
    atomic_ref<std::uint32_t, scope::device> const frames(*fs.kept_frames);
    bool counts = false;
    if (frames.fetch_add(1, memory_order_relaxed) < fs.cache.frame_count / frames_per_kept) {
      // Acquire, as in pin().
      std::uint64_t const state = frame_state(*header).fetch_add(warp_size, memory_order_acquire);
      if (((state ^ seen) >> phase_shift) == 0) {
        kept = 1;
        counts = keepers(fs, header).fetch_add(warp_size, memory_order_relaxed) == 0;
      } else {
        unpin_read(*header, warp_size);
      }
    }
    if (!counts) frames.fetch_sub(1, memory_order_relaxed);
  }
  kept = warp_broadcast(kept);
  __syncwarp();  // all lanes come after the acquire of the first one
  return kept != 0;
}

/// Gives back the pin of each lane that comes here. They have only read the page.
GPUFS_STAGE inline void unkeep(fs_ref const* handle, frame_header* kept) {
  std::uint32_t const lanes = release_pins(converged(), *kept);
  if (lanes != 0 && keepers(*handle, kept).fetch_sub(lanes, memory_order_relaxed) == lanes)
    atomic_ref<std::uint32_t, scope::device>(*handle->kept_frames)
        .fetch_sub(1, memory_order_relaxed);
}

}  // namespace gpufs::detail
