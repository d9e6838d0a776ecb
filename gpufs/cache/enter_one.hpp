// Takes a frame for one page and enters it, with few trips to memory. Loads that do not need each
// other's results are under way together, and a warp looks at a whole bucket at once.
#pragma once

#include <gpufs/cache/take.hpp>

#include <cstdint>

namespace gpufs::cache {

using namespace base;

/// The outcome of enter_one().
struct one_entered {
  std::uint32_t frame = 0;
  bool taken = false;    ///< `frame` is filling and has a pin; it is in the table if `inserted`
  bool evicted = false;  ///< it held a page
  insert_result result = insert_result::duplicate;
};

/// The next frame of a seat's queue that enter_one() has claimed.
struct claimed_frame {
  phase was = phase::evicting;  ///< evicting: none was claimed
  std::uint32_t frame = 0;
  std::uint32_t old_bucket = 0;  ///< of the page that it holds, if it was ready
  std::uint32_t old_tag = 0;
};

/// Draws the next frame of the seat's queue, for enter_one(). One thread calls. A frame that is
/// drawn and not taken is passed over until its turn comes again.
__device__ __forceinline__ std::uint64_t draw_next(handle::page_cache_ref const& c,
                                                   std::int32_t seat) {
  return atomic_ref<std::uint64_t, scope::device>(c.lra.queues[seat].cursor)
      .fetch_add(1, memory_order_relaxed);
}

/// Claims the frame that was `drawn`. One thread calls. Claims none if the queue has no frame, or
/// if this one has a pin. `unpin` as in take_each().
template <class Unpin>
__device__ __forceinline__ claimed_frame claim_drawn(handle::page_cache_ref const& c,
                                                     std::int32_t seat, std::uint64_t drawn,
                                                     Unpin const& unpin) {
  claimed_frame mine;
  if (c.lra.used_up(drawn, c.frame_count)) {
    candidate_frame next{false, 0};
    std::uint32_t frame = 0;
    if (!lra_candidate<one_lane>(c, seat, true, 1, 0, next, frame) || !next.valid) return mine;
    mine.frame = next.frame;
  } else {
    mine.frame = c.lra.frame_at(drawn);
  }
  frame_header& h = c.headers[mine.frame];
  // The name comes in the same trip. If its loads come behind that of the state, it is right if
  // claim() finds the same state, as the generation changes with the name.
  std::uint64_t state = frame_state(h).load(memory_order_relaxed);
  page_location const old =
      locate(c, atomic_ref<std::uint64_t, scope::device>(h.version).load(memory_order_relaxed),
             atomic_ref<std::uint64_t, scope::device>(h.page).load(memory_order_relaxed));
  if (phase_of(state) == phase::ready && pins_of(state) == 1 && unpin(mine.frame)) --state;
  mine.was = claim(h, state);
  mine.old_bucket = static_cast<std::uint32_t>(old.bucket);
  mine.old_tag = old.tag;
  return mine;
}

/// As take_each() and insert_each() for one page, in the usual case: the frame that lane 0 has
/// `drawn` from the queue of `seat` has no pin, or one that `unpin` takes back, as in take_each().
/// Otherwise takes nothing. All lanes of a warp call, with the same arguments. The policy has
/// queues, and the seat is the caller's. Waits for a bucket's lock at most. A frame that is not
/// `inserted` must be released by release_filling().
template <class Unpin = keep_pins>
__device__ __forceinline__ one_entered enter_one(handle::page_cache_ref const& c, std::int32_t seat,
                                                 std::uint64_t drawn, std::uint64_t version,
                                                 std::uint64_t page, Unpin unpin = {}) {
  bool const first_lane = lane_id() == 0;
  page_location const at = locate(c, version, page);
  atomic_ref<std::uint32_t, scope::device> lock(c.bucket_locks[at.bucket]);
  claimed_frame mine;
  if (first_lane) mine = claim_drawn(c, seat, drawn, unpin);
  auto const was = static_cast<phase>(warp_broadcast(static_cast<std::uint32_t>(mine.was)));
  if (was == phase::evicting) return {};
  one_entered r;
  r.taken = true;
  r.evicted = was == phase::ready;
  r.frame = warp_broadcast(mine.frame);
  frame_header& h = c.headers[r.frame];

  // The old page's entry, and the new bucket's lock. Nobody else changes that entry.
  std::uint32_t const old_bucket = warp_broadcast(mine.old_bucket);
  std::uint64_t const own = std::uint64_t(warp_broadcast(mine.old_tag)) << 32 | (r.frame + 1);
  std::uint64_t const old =
      r.evicted ? bucket_entry(c, old_bucket, lane_id()).load(memory_order_relaxed) : 0;
  // Pairs with the store below, as in lane_insert(). The wait comes when the old entry is gone.
  bool locked = !first_lane || lock.exchange(1, memory_order_acquire) == 0;
  if (old == own) bucket_entry(c, old_bucket, lane_id()).store(0, memory_order_relaxed);
  // The loads of state and name have no order. If the name was an older one, look again: now the
  // acquire of claim() is behind us.
  if (r.evicted && __ballot_sync(all_lanes, old == own) == 0) remove(c, r.frame);
  // Holders run a few instructions.
  for (unsigned pause = 0; !locked; locked = lock.exchange(1, memory_order_acquire) == 0)
    backoff(pause);
  __syncwarp();  // all lanes come after the acquire, and the old entry is gone before the new name

  if (first_lane) begin_fill(h, version, page);
  std::uint64_t const entry = bucket_entry(c, at.bucket, lane_id()).load(memory_order_relaxed);
  if (first_lane) settle_name(h);
  unsigned const free = __ballot_sync(all_lanes, entry == 0);
  // As in enter_locked(). If the entry is gone meanwhile, the caller does not find the page either.
  bool const same =
      at.may_be(entry) && names(c.headers[static_cast<std::uint32_t>(entry) - 1], version, page);
  r.result = __ballot_sync(all_lanes, same) != 0 ? insert_result::duplicate
             : free == 0                         ? insert_result::full
                                                 : insert_result::inserted;
  if (first_lane && r.result == insert_result::inserted)
    store_entry(c, at, first_way(free, at.home()), r.frame);
  if (first_lane) lock.store(0, after_settling);
  __syncwarp();
  return r;
}

}  // namespace gpufs::cache
