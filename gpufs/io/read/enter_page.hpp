// Enters pages into the page table: takes a frame, names it, makes it findable.
#pragma once

#include <gpufs/cache/enter_one.hpp>
#include <gpufs/cache/line_wait.hpp>
#include <gpufs/dirty/write_buffer.hpp>
#include <gpufs/handle/file_counters.hpp>
#include <gpufs/source/staged.hpp>

#include <cerrno>
#include <cstdint>

namespace gpufs::io {

using namespace base;

/// Part of a wait for page channels: completions of commands that were given up free channels.
/// Looks at a channel for each lane, at others with each attempt. All lanes of the team call.
template <class Team>
__device__ __forceinline__ void help_channels(fs_ref const& fs, unsigned attempt) {
  handle::channel_pool_ref const& pool = fs.channels.page;
  std::uint32_t const at = warp_number() * pool.spacing + attempt * (warp_size + 1) + lane_id();
  ring::help_drives<Team>(fs.self, true, pool.first + at % pool.count, attempt);
}

/// The outcome of enter_each() for a lane's page.
struct entry_attempt {
  cache::taken_frame taken;  ///< frame < 0: no frame was found
  bool entered;  ///< the frame is `filling`, pinned, and in the table under the page's name
  cache::insert_result result;  ///< valid if there was a frame
};

/// For those who take frames: makes one free that only a clean write buffer pins.
struct clean_releaser {
  fs_ref const& fs;
  __device__ __forceinline__ auto operator()(std::uint32_t frame) const {
    return dirty::release_clean(fs, frame);
  }
};

/// Takes a frame for each lane that `wants` one, as cache::take_each().
template <class Team = whole_warp>
__device__ __forceinline__ cache::taken_frame take_frames(fs_ref const& fs, std::int32_t seat,
                                                          bool wants) {
  return cache::take_each<Team>(fs.cache, seat, wants, clean_releaser{fs});
}

/// cache::evict_from_bucket().
__device__ __forceinline__ bool make_room(fs_ref const& fs, source::page_name const& name) {
  return cache::evict_from_bucket(fs.cache, name.version, name.page, clean_releaser{fs});
}

/// cache::enter_one().
GPUFS_LIBRARY_STAGE cache::one_entered enter_alone(fs_ref const* __restrict__ handle,
                                                   std::int32_t seat, std::uint64_t drawn,
                                                   std::uint64_t version, std::uint64_t page) {
  return cache::enter_one(handle->cache, seat, drawn, version, page, clean_releaser{*handle});
}

/// The outcome of enter_one() for the lane that `wants` the page. If the frame could not be
/// entered, gives it back. All lanes of a warp call.
__device__ __forceinline__ entry_attempt as_attempt(fs_ref const& fs, cache::one_entered const& one,
                                                    bool wants) {
  if (!wants) return {{-1, false}, false, cache::insert_result::duplicate};
  bool const entered = one.result == cache::insert_result::inserted;
  if (!entered) cache::release_filling(fs.cache.headers[one.frame]);
  return {{one.frame, one.evicted}, entered, one.result};
}

/// Takes a frame for each lane that `wants` one and enters it under the page's name, filling, with
/// one pin. If that fails the lane has no frame. Frames come from the queue of `seat`; if it is -1,
/// from the sweep. All lanes of a warp call. Waits for a bucket's lock at most.
__device__ __forceinline__ entry_attempt enter_each(fs_ref const& fs, std::int32_t seat, bool wants,
                                                    std::uint64_t version, std::uint64_t page) {
  unsigned const wanting = __ballot_sync(all_lanes, wants);
  if (count_lanes(wanting) == 1 && seat >= 0 && cache::has_queues(fs.cache.policy)) {
    auto const from = static_cast<int>(lowest_lane(wanting));
    std::uint64_t const drawn = lane_id() == 0 ? cache::draw_next(fs.cache, seat) : 0;
    cache::one_entered const one = enter_alone(fs.self, seat, drawn, warp_broadcast(version, from),
                                               warp_broadcast(page, from));
    if (one.taken) return as_attempt(fs, one, wants);
  }
  entry_attempt a{take_frames(fs, seat, wants), false, cache::insert_result::duplicate};
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
/// fetching, with a pin. It is none, with no pin, if all frames tried were pinned, or if callers
/// wait in the frame line and the caller may not try.
__device__ __forceinline__ source::fill enter_page(fs_ref const& fs, std::int32_t seat,
                                                   source::page_name const& name,
                                                   cache::line_wait<> const& wait) {
  source::fill e;
  bool const first_lane = lane_id() == 0;
  for (;;) {
    cache::lookup const found = cache::find_and_pin(fs.cache, name.version, name.page);
    if (found.result != cache::lookup_result::absent) return source::fill::by_look_up(found);
    if (!wait.may_take()) return e;
    entry_attempt const a = enter_each(fs, seat, first_lane, name.version, name.page);
    if (first_lane && a.taken.evicted) handle::add(fs, handle::counter::evictions);
    if (__ballot_sync(all_lanes, a.taken.frame >= 0) == 0) return e;
    if (__ballot_sync(all_lanes, a.entered) != 0) {
      if (first_lane) handle::count(fs, name.fd, handle::file_counter::misses);
      e.frame = warp_broadcast(static_cast<std::uint32_t>(a.taken.frame));
      e.status = source::page_status::fetching;
      return e;
    }
    __syncwarp();
    bool const found_full = first_lane && a.result == cache::insert_result::full;
    if (__ballot_sync(all_lanes, found_full) == 0) continue;
    bool const made_room = found_full && make_room(fs, name);
    if (__ballot_sync(all_lanes, made_room) == 0) return source::fill{};
    if (first_lane) handle::add(fs, handle::counter::evictions);
  }
}

/// Waits until a pinned page is filled. All lanes of a warp call; the group owes no page. The
/// status becomes hit, still pinned, or failed. It becomes none if the frame has another page.
__device__ __forceinline__ void await_filled(fs_ref const& fs, source::page_name const& name,
                                             source::fill& e) {
  cache::frame_header& h = fs.cache.headers[e.frame];
  cache::phase now = cache::phase::filling;
  // The filler waits only for the daemon. Acquire pairs with publish() and fail().
  e.error = handle::warp_spin_until(fs, [&] {
    now = cache::phase_of(cache::frame_state(h).load(memory_order_acquire));
    return __all_sync(all_lanes, now != cache::phase::filling) != 0;
  });
  bool const ours = cache::names(h, name.version, name.page);
  if (e.error == 0 && ours && now == cache::phase::failed) e.error = cache::fetch_error(h);
  e.status = e.error != 0                         ? source::page_status::failed
             : ours && now == cache::phase::ready ? source::page_status::hit
                                                  : source::page_status::none;
  e.got = cache::valid_bytes(h);
  __syncwarp();
  if (e.status != source::page_status::hit && lane_id() == 0) cache::unpin_read(h);
  __syncwarp();
}

/// As enter_page(), but waits for others that bring the page in, and for a frame, in the frame
/// line. All lanes of a warp call. Its group holds no page and no lock; it may hold a write buffer,
/// since no holder of a frame waits for one. The status is hit or fetching, with a pin, or failed.
__device__ __forceinline__ source::fill enter_in_turn(fs_ref const& fs, std::int32_t seat,
                                                      source::page_name const& name) {
  cache::line_wait<> wait(*fs.cache.line);
  for (;;) {
    source::fill e = enter_page(fs, seat, name, wait);
    if (e.status != source::page_status::none) {
      wait.leave(true);
      if (e.status == source::page_status::waiting) await_filled(fs, name, e);
      if (e.status != source::page_status::none) return e;
    } else if (e.error = wait.try_again(fs, -ENOMEM); e.error != 0) {
      wait.leave(false);
      e.status = source::page_status::failed;
      return e;
    }
  }
}

}  // namespace gpufs::io
