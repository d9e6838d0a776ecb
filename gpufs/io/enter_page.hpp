// Pages entered into the page table: frames taken, named and made findable, for a lane each or for
// one page.
#pragma once

#include <gpufs/io/fetch.hpp>

#include <cstdint>

namespace gpufs::detail {

/// What became of a lane's page.
struct entry_attempt {
  taken_frame taken;     ///< frame < 0: there was none
  bool entered;          ///< the frame is `filling`, pinned, and found under the page's name
  insert_result result;  ///< if there was a frame
};

/// For each lane that wants it: takes a frame and enters it under its name, filling, with one pin.
/// Otherwise nothing is held. `slot`: the context's, whose queue the frames come from, or -1. All
/// lanes of a warp call; nobody waits.
__device__ __forceinline__ entry_attempt enter_each(fs_ref const& fs, std::int32_t slot, bool wants,
                                                    std::uint64_t uid, std::uint64_t page) {
  entry_attempt a{take_each(fs.cache, slot, wants), false, insert_result::duplicate};
  bool const filling = a.taken.frame >= 0;
  auto const frame = static_cast<std::uint32_t>(a.taken.frame);
  if (filling) begin_fill(fs.cache.headers[frame], uid, page);
  __syncwarp();
  a.result = insert_each(fs.cache, filling, uid, page, frame);
  a.entered = filling && a.result == insert_result::inserted;
  if (filling && !a.entered) release_filling(fs.cache.headers[frame]);
  return a;
}

/// Finds a page or claims the task of bringing it in: frame taken and entered, filling, pinned.
/// Sends no request. The status is hit, waiting, fetching, or none: all frames it looked at are
/// pinned, and nothing is held. All lanes of a warp call, all get the answer.
__device__ __forceinline__ page_entry enter_page(fs_ref const& fs, std::int32_t slot,
                                                 page_name const& name) {
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
    entry_attempt const a = enter_each(fs, slot, first_lane, name.uid, name.page);
    if (first_lane && a.taken.evicted) count(fs, counter::evictions);
    if (__ballot_sync(all_lanes, a.taken.frame >= 0) == 0) return e;
    if (__ballot_sync(all_lanes, a.entered) != 0) {
      if (first_lane) count(fs, counter::misses);
      e.frame = warp_broadcast(static_cast<std::uint32_t>(a.taken.frame));
      e.status = page_status::fetching;
      return e;
    }
    __syncwarp();
    bool const found_full = first_lane && a.result == insert_result::full;
    if (__ballot_sync(all_lanes, found_full) == 0) continue;
    bool const made_room = found_full && evict_from_bucket(fs.cache, name.uid, name.page);
    if (__ballot_sync(all_lanes, made_room) == 0) return page_entry{};
    if (first_lane) count(fs, counter::evictions);
  }
}

}  // namespace gpufs::detail
