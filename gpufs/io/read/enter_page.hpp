// Enters pages into the page table: takes a frame, names it, makes it findable.
#pragma once

#include <gpufs/source/staged.hpp>

#include <cstdint>

namespace gpufs::io {

using namespace base;

/// The outcome of enter_each() for a lane's page.
struct entry_attempt {
  cache::taken_frame taken;  ///< frame < 0: no frame was found
  bool entered;  ///< the frame is `filling`, pinned, and in the table under the page's name
  cache::insert_result result;  ///< valid if there was a frame
};

/// Takes a frame for each lane that `wants` one and enters it under the page's name, filling, with
/// one pin. If that fails the lane has no frame. Frames come from the queue of `seat`; if it is -1,
/// from the sweep. All lanes of a warp call. Waits for a bucket's lock at most.
__device__ __forceinline__ entry_attempt enter_each(fs_ref const& fs, std::int32_t seat, bool wants,
                                                    std::uint64_t version, std::uint64_t page) {
  entry_attempt a{cache::take_each(fs.cache, seat, wants), false, cache::insert_result::duplicate};
  bool const filling = a.taken.frame >= 0;
  auto const frame = static_cast<std::uint32_t>(a.taken.frame);
  if (filling) cache::begin_fill(fs.cache.headers[frame], version, page);
  __syncwarp();
  a.result = cache::insert_each(fs.cache, filling, version, page, frame);
  a.entered = filling && a.result == cache::insert_result::inserted;
  if (filling && !a.entered) cache::release_filling(fs.cache.headers[frame]);
  return a;
}

/// Finds a page, or enters it with a frame, filling and pinned, for the caller to bring in. Sends
/// no request. All lanes of a warp call, and all get the result. The status is hit, waiting or
/// fetching, with a pin. It is none, with no pin, if all frames tried were pinned.
__device__ __forceinline__ source::page_entry enter_page(fs_ref const& fs, std::int32_t seat,
                                                         source::page_name const& name) {
  source::page_entry e;
  bool const first_lane = lane_id() == 0;
  for (;;) {
    cache::lookup const found = cache::find_and_pin(fs.cache, name.version, name.page);
    if (found.result != cache::lookup_result::absent) {
      e.status = found.result == cache::lookup_result::hit ? source::page_status::hit
                                                           : source::page_status::waiting;
      e.frame = found.frame;
      e.got = found.valid;
      return e;
    }
    entry_attempt const a = enter_each(fs, seat, first_lane, name.version, name.page);
    if (first_lane && a.taken.evicted) handle::add(fs, handle::counter::evictions);
    if (__ballot_sync(all_lanes, a.taken.frame >= 0) == 0) return e;
    if (__ballot_sync(all_lanes, a.entered) != 0) {
      if (first_lane) handle::add(fs, handle::counter::misses);
      e.frame = warp_broadcast(static_cast<std::uint32_t>(a.taken.frame));
      e.status = source::page_status::fetching;
      return e;
    }
    __syncwarp();
    bool const found_full = first_lane && a.result == cache::insert_result::full;
    if (__ballot_sync(all_lanes, found_full) == 0) continue;
    bool const made_room =
        found_full && cache::evict_from_bucket(fs.cache, name.version, name.page);
    if (__ballot_sync(all_lanes, made_room) == 0) return source::page_entry{};
    if (first_lane) handle::add(fs, handle::counter::evictions);
  }
}

}  // namespace gpufs::io
