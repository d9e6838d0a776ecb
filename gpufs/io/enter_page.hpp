// One page entered into the page table by one warp, for whoever works page by page.
#pragma once

#include <gpufs/io/fetch.hpp>

#include <cstdint>

namespace gpufs::detail {

/// Finds a page or claims the task of bringing it in: frame taken and entered, filling, pinned. Sends no request. The status is hit, waiting,
/// fetching, or none: all frames it looked at are pinned, and nothing is held. `slot`: the context's, whose queue the frame comes from, or
/// -1. All lanes of a warp call, all get the answer.
__device__ __forceinline__ page_entry enter_page(fs_ref const& fs, std::int32_t slot, page_name const& name) {
  page_entry e;
  bool const first_lane = lane_id() == 0;
  for (;;) {
    lookup const found = find_and_pin(fs.cache, name.uid, name.page);
    if (found.result != lookup_result::absent) {
      e.status = found.result == lookup_result::hit ? page_status::hit : page_status::waiting;
      e.frame = found.frame;
      e.got = found.valid;
      return e;
    }
    taken_frame const taken = take_each(fs.cache, slot, first_lane);
    if (first_lane && taken.evicted) count(fs, counter::evictions);
    if (__ballot_sync(all_lanes, taken.frame >= 0) == 0) return e;
    e.frame = warp_broadcast(static_cast<std::uint32_t>(taken.frame));
    if (first_lane) begin_fill(fs.cache.headers[e.frame], name.uid, name.page);
    __syncwarp();
    auto const entered = static_cast<insert_result>(
        warp_broadcast(static_cast<std::uint32_t>(insert_each(fs.cache, first_lane, name.uid, name.page, e.frame))));
    if (entered == insert_result::inserted) {
      if (first_lane) count(fs, counter::misses);
      e.status = page_status::fetching;
      return e;
    }
    if (first_lane) release_filling(fs.cache.headers[e.frame]);
    __syncwarp();
    if (entered == insert_result::duplicate) continue;
    if (!evict_from_bucket(fs.cache, name.uid, name.page)) return page_entry{};
    if (first_lane) count(fs, counter::evictions);
  }
}

}  // namespace gpufs::detail
