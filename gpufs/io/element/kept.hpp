// Kept pages: pins for warps that return to a page, for at most an eighth of the frames.
#pragma once

#include <gpufs/base/warp.hpp>
#include <gpufs/cache/peek.hpp>
#include <gpufs/fs_ref.hpp>
#include <gpufs/io/element/lane_access.hpp>

#include <cstdint>

namespace gpufs::io {

using namespace base;

/// One frame in so many of each group may be kept, over all arrays, threads and kernels. Writers
/// may pin half of the frames. The rest is for callers that wait for a frame.
inline constexpr std::uint32_t frames_per_kept = 8;

/// The number of lanes that keep a frame. A frame with keepers counts once in kept_frames() of its
/// group.
__device__ __forceinline__ atomic_ref<std::uint32_t, scope::device> keepers(
    fs_ref const& fs, cache::frame_header const* h) {
  return atomic_ref<std::uint32_t, scope::device>(fs.pins.keepers[h - fs.cache.headers]);
}

/// The number of kept frames in the frame's group.
__device__ __forceinline__ atomic_ref<std::uint32_t, scope::device> kept_frames(
    fs_ref const& fs, cache::frame_header const* h) {
  auto const group = static_cast<std::uint64_t>(h - fs.cache.headers) & (fs.pins.kept_groups - 1);
  return atomic_ref<std::uint32_t, scope::device>(fs.pins.kept_frames[group * handle::kept_stride]);
}

/// Pins a frame once for each of the 32 lanes, if its page is still the one that they saw. All
/// lanes of a warp call; each gives the same header and the state that it saw, `seen`. Returns
/// whether the frame is kept now. If not, nothing is pinned: lanes saw other generations, or an
/// eighth of the group's frames is kept. Each lane gives its pin back by unkeep().
///
/// kept_frames() rises before a frame gets its first keeper and falls after it loses the last. So
/// it never undercounts. A warp that finds keepers takes its own increment back. The lane that
/// takes the keepers to 0 takes back the frame's.
GPUFS_LIBRARY_STAGE bool keep_seen(fs_ref const* __restrict__ handle, cache::frame_header* header,
                                   std::uint64_t seen) {
  fs_ref const& fs = *handle;
  std::uint64_t const generation = seen >> cache::phase_shift;
  bool const together =
      __all_sync(all_lanes,
                 generation ==
                     __shfl_sync(all_lanes, static_cast<unsigned long long>(generation), 0)) != 0;
  std::uint32_t kept = 0;
  if (together && lane_id() == 0) {
    auto const frames = kept_frames(fs, header);
    auto const most = fs.cache.frame_count / fs.pins.kept_groups / frames_per_kept;
    bool counts = false;
    if (frames.fetch_add(1, memory_order_relaxed) < most) {
      // Acquire pairs with publish(), as in pin().
      std::uint64_t const state =
          cache::frame_state(*header).fetch_add(warp_size, memory_order_acquire);
      if (((state ^ seen) >> cache::phase_shift) == 0) {
        kept = 1;
        counts = keepers(fs, header).fetch_add(warp_size, memory_order_relaxed) == 0;
      } else {
        cache::unpin_read(*header, warp_size);
      }
    }
    if (!counts) frames.fetch_sub(1, memory_order_relaxed);
  }
  kept = warp_broadcast(kept);
  __syncwarp();  // all lanes come after the first lane's acquire
  return kept != 0;
}

/// Gives back the pin of each lane that comes. The lanes have only read the page. Any thread calls.
GPUFS_LIBRARY_STAGE void unkeep(fs_ref const* __restrict__ handle, cache::frame_header* kept) {
  std::uint32_t const lanes = release_pin(*kept);
  if (lanes != 0 && keepers(*handle, kept).fetch_sub(lanes, memory_order_relaxed) == lanes)
    kept_frames(*handle, kept).fetch_sub(1, memory_order_relaxed);
}

}  // namespace gpufs::io
