// Least-recently-allocated replacement (paper 001, section 5.1): each context slot owns a queue of
// the frames it allocated and replaces its own oldest, without a global lock.
#pragma once

#include <gpufs/cache/lra_queue.hpp>
#include <gpufs/cache/sweep.hpp>

#include <cstdint>

namespace gpufs {

// The cache is cut into segments of a few consecutive frames, and a queue is a list of segments,
// oldest first. The last segment is handed out with atomic adds; only when it is used up is the
// queue's lock taken and another segment put at the end:
//   1. one that no queue has had yet (free frames first, whatever the quota);
//   2. one of a queue that nobody owns: slots outlive blocks, and the next owner inherits what is
//   left;
//   3. for a queue below its quota (segments / owned queues) one of a queue above it;
//   4. its own oldest.
// The frame itself is won by claim(). So the queues decide only the order of victims: a frame taken
// through a stale cursor is merely taken out of order. Locks are held for a few instructions; a
// second one is only tried, never waited for.

namespace detail {

__device__ __forceinline__ atomic_ref<std::uint32_t, scope::device> word(std::uint32_t& w) {
  return atomic_ref<std::uint32_t, scope::device>(w);
}

__device__ __forceinline__ bool try_lock(lra_queue& q) {
  return word(q.lock).exchange(1, memory_order_acquire) == 0;
}
__device__ __forceinline__ void lock(lra_queue& q) {
  for (unsigned pause = 0; !try_lock(q);) backoff(pause);  // the holder never waits
}
__device__ __forceinline__ void unlock(lra_queue& q) {
  word(q.lock).store(0, memory_order_release);
}

__device__ __forceinline__ void push_segment(lra_ref const& l, lra_queue& q,
                                             std::uint32_t segment) {
  if (q.count == 0) {
    q.head = segment;
  } else {
    l.next_segment[q.tail] = segment;
  }
  q.tail = segment;
  word(q.count).store(q.count + 1, memory_order_relaxed);
}

__device__ __forceinline__ std::uint32_t pop_segment(lra_ref const& l, lra_queue& q) {
  std::uint32_t const segment = q.head;
  q.head = l.next_segment[segment];
  word(q.count).store(q.count - 1, memory_order_relaxed);
  return segment;
}

/// Takes the oldest segment of a queue that nobody owns, or (`above` > 0) of one with more than
/// `above` segments. One thread calls.
__device__ __forceinline__ std::int64_t steal_segment(lra_ref const& l, lra_queue& own,
                                                      std::uint32_t above) {
  std::uint32_t const first = word(l.totals->hint).load(memory_order_relaxed);
  for (std::uint32_t i = 0; i < l.queue_count; ++i) {
    std::uint32_t const at = (first + i) % l.queue_count;
    lra_queue& q = l.queues[at];
    auto const eligible = [&] {
      std::uint32_t const count = word(q.count).load(memory_order_relaxed);
      return above == 0 ? count > 0 && word(q.owned).load(memory_order_relaxed) == 0
                        : count > above;
    };
    if (&q == &own || !eligible() || !try_lock(q)) continue;
    std::int64_t segment = -1;
    if (eligible()) {
      segment = pop_segment(l, q);
      if (q.count == 0)
        atomic_ref<std::uint64_t, scope::device>(q.cursor).store(0, memory_order_relaxed);
      if (q.owned == 0) word(l.totals->unowned_segments).fetch_sub(1, memory_order_relaxed);
    }
    unlock(q);
    if (segment >= 0) {
      word(l.totals->hint).store(at, memory_order_relaxed);
      return segment;
    }
  }
  return -1;
}

/// Gives the queue another segment to hand out if the current one is used up. One thread calls.
/// False if there is none to be had.
__device__ __forceinline__ bool advance(lra_ref const& l, lra_queue& q, std::uint32_t frame_count) {
  lock(q);
  atomic_ref<std::uint64_t, scope::device> cursor(q.cursor);
  bool ready = true;
  if (l.used_up(cursor.load(memory_order_relaxed), frame_count)) {
    std::int64_t segment = -1;
    if (word(l.totals->fresh).load(memory_order_relaxed) < l.segment_count) {
      std::uint32_t const fresh = word(l.totals->fresh).fetch_add(1, memory_order_relaxed);
      if (fresh < l.segment_count) segment = fresh;
    }
    if (segment < 0 && word(l.totals->unowned_segments).load(memory_order_relaxed) != 0)
      segment = steal_segment(l, q, 0);
    if (segment < 0) {
      std::uint32_t const owners = word(l.totals->owners).load(memory_order_relaxed);
      std::uint32_t const share = l.segment_count / (owners == 0 ? 1 : owners);
      std::uint32_t const quota = share == 0 ? 1 : share;
      if (q.count < quota) segment = steal_segment(l, q, quota);
    }
    if (segment < 0 && q.count != 0) segment = pop_segment(l, q);
    ready = segment >= 0;
    if (ready) {
      push_segment(l, q, static_cast<std::uint32_t>(segment));
      cursor.store(lra_ref::start_of(static_cast<std::uint32_t>(segment)), memory_order_relaxed);
    }
  }
  unlock(q);
  return ready;
}

}  // namespace detail

/// The owner of a slot takes its queue over, or leaves it to whoever needs frames. One thread
/// calls.
__device__ __forceinline__ void own_queue(lra_ref const& l, std::int32_t slot, bool own) {
  if (l.queues == nullptr) return;
  lra_queue& q = l.queues[slot];
  detail::lock(q);
  detail::word(q.owned).store(own ? 1 : 0, memory_order_relaxed);
  if (own) {
    detail::word(l.totals->owners).fetch_add(1, memory_order_relaxed);
    detail::word(l.totals->unowned_segments).fetch_sub(q.count, memory_order_relaxed);
  } else {
    detail::word(l.totals->owners).fetch_sub(1, memory_order_relaxed);
    detail::word(l.totals->unowned_segments).fetch_add(q.count, memory_order_relaxed);
  }
  detail::unlock(q);
}

/// The next `n` frames of the slot's queue; the calling lane gets number `rank` of them, if there
/// are so many before the next segment. All lanes of a team of the slot's owner call. False in all
/// lanes if the queue has no frame to give.
template <class Team>
__device__ __forceinline__ bool lra_candidate(page_cache_ref const& c, std::int32_t slot,
                                              bool seeks, unsigned n, unsigned rank,
                                              candidate_frame& mine) {
  lra_queue& q = c.lra.queues[slot];
  std::uint64_t at = 0;
  std::uint32_t more = 1;
  if (Team::lane() == 0) {
    // Others may draw from the cursor, too, or take the segment away meanwhile: then claim()
    // decides.
    atomic_ref<std::uint64_t, scope::device> cursor(q.cursor);
    at = cursor.fetch_add(n, memory_order_relaxed);
    if (c.lra.used_up(at, c.frame_count)) {
      more = detail::advance(c.lra, q, c.frame_count) ? 1 : 0;
      if (more != 0) at = cursor.fetch_add(n, memory_order_relaxed);
    }
  }
  if (Team::broadcast(more) == 0) return false;
  std::uint64_t const own = Team::broadcast(at) + rank;
  bool const valid = seeks && !c.lra.used_up(own, c.frame_count);
  mine = {valid, valid ? c.lra.frame_at(own) : 0};
  return true;
}

}  // namespace gpufs
