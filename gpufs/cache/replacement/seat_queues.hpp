// Least-recently-allocated replacement (GPUfs readahead paper, section 5.1). Each seat owns a queue
// of the frames that it allocated, and replaces its oldest frames first. There is no global lock.
#pragma once

#include <gpufs/cache/replacement/lra_queue.hpp>
#include <gpufs/cache/replacement/sweep.hpp>

#include <cstdint>

namespace gpufs::cache {

// The cache is cut into segments of a few consecutive frames. A queue is a list of segments, oldest
// first. Its last run, one to four segments that follow each other, is handed out with atomic adds.
// When the run is used up, the queue's lock is taken and another run is appended:
//   1. a segment that no queue has had yet, whatever the quota;
//   2. a segment of a queue without an owner (seats outlive blocks);
//   3. below the quota of segments / owned queues, a segment of a queue above it (with fewer
//      segments than owned queues nobody looks: hundreds of queues would be searched in vain);
//   4. its own oldest segment.
//
// In steps 1 and 4 a run has several segments if the queue is long. All warps of a block that draw
// frames for a long read wait for an append, so there should be few. The frames of a run that are
// not drawn yet are a sixteenth of the queue at most, or a segment. Others find them last, though
// they are the oldest or free.
//
// claim() decides which group gets a frame, so the queues decide only the order of victims. A frame
// taken through a stale cursor is only taken out of order. A holder of a lock never waits: it only
// tries for a second lock, and looks at each other queue at most twice.

__device__ __forceinline__ atomic_ref<std::uint32_t, scope::device> word(std::uint32_t& w) {
  return atomic_ref<std::uint32_t, scope::device>(w);
}

/// No frame: what lra_candidate() draws from a run that is used up.
inline constexpr std::uint32_t no_frame = ~std::uint32_t{0};

__device__ __forceinline__ bool try_lock(lra_queue& q) {
  return word(q.lock).exchange(1, memory_order_acquire) == 0;
}
__device__ __forceinline__ void lock(lra_queue& q) {
  for (unsigned pause = 0; !try_lock(q);) backoff(pause);  // the holder never waits
}
__device__ __forceinline__ void unlock(lra_queue& q) {
  word(q.lock).store(0, memory_order_release);
}

/// Segments that follow each other, in the cache and in the list of a queue.
struct segment_run {
  std::uint32_t first = 0;
  std::uint32_t count = 0;  ///< 0: none
};

/// The segment behind `segment` in its list. pop_run() also loads links of other queues' lists.
__device__ __forceinline__ atomic_ref<std::uint32_t, scope::device> link(handle::lra_ref const& l,
                                                                         std::uint32_t segment) {
  return word(l.next_segment[segment]);
}

/// The most segments of the next run of a queue that has `count`. Those of a short queue have one,
/// so that a small cache is shared out fairly.
__device__ __forceinline__ std::uint32_t next_run(std::uint32_t count) {
  return most(1u, least(count / 16, handle::lra_ref::most_in_run));
}

/// Appends the run, whose segments are linked already.
__device__ __forceinline__ void push_run(handle::lra_ref const& l, lra_queue& q, segment_run r) {
  if (q.count == 0) {
    q.head = r.first;
  } else {
    link(l, q.tail).store(r.first, memory_order_relaxed);
  }
  q.tail = r.first + r.count - 1;
  word(q.count).store(q.count + r.count, memory_order_relaxed);
}

/// Takes the oldest segment of a queue that has some.
__device__ __forceinline__ std::uint32_t pop_segment(handle::lra_ref const& l, lra_queue& q) {
  std::uint32_t const segment = q.head;
  q.head = link(l, segment).load(memory_order_relaxed);
  word(q.count).store(q.count - 1, memory_order_relaxed);
  return segment;
}

/// Takes the oldest segment, and those that follow it in the cache and in the list, up to `limit`
/// in all. The queue has more than that, or `limit` is 1.
__device__ __forceinline__ segment_run pop_run(handle::lra_ref const& l, lra_queue& q,
                                               std::uint32_t limit) {
  constexpr std::uint32_t all = handle::lra_ref::most_in_run;
  segment_run r{q.head, 1};
  std::uint32_t next[all];  // these loads are under way together
  GPUFS_UNROLL
  for (std::uint32_t i = 0; i < all; ++i)
    next[i] = link(l, least(r.first + (i < limit ? i : 0), l.segment_count - 1))
                  .load(memory_order_relaxed);
  std::uint32_t head = next[0];
  GPUFS_UNROLL
  for (std::uint32_t i = 1; i < all; ++i) {
    if (i == r.count && i < limit && head == r.first + i) {
      head = next[i];
      ++r.count;
    }
  }
  q.head = head;
  word(q.count).store(q.count - r.count, memory_order_relaxed);
  return r;
}

/// Passes over the frames of the queue's run whose segments another queue has taken: all of its
/// segments but the last `q.count`. One thread calls, with the queue's lock.
__device__ __forceinline__ void skip_taken(handle::lra_ref const& l, lra_queue& q) {
  atomic_ref<std::uint64_t, scope::device> cursor(q.cursor);
  std::uint64_t const at = cursor.load(memory_order_relaxed);
  std::uint32_t const run = l.segments_of(at);
  if (at >> 32 == 0 || q.count >= run) return;
  // Draws only change the lower half, and this one never brings it back.
  std::uint64_t const taken = std::uint64_t(run - q.count) * l.segment_frames;
  cursor.fetch_max((at >> 32 << 32) | taken, memory_order_relaxed);
}

/// Takes segments that no queue has had yet, `limit` at most. One thread calls.
__device__ __forceinline__ segment_run take_fresh(handle::lra_ref const& l, std::uint32_t limit) {
  std::uint32_t const first = word(l.totals->fresh).fetch_add(limit, memory_order_relaxed);
  if (first >= l.segment_count) return {};
  segment_run const r{first, least(limit, l.segment_count - first)};
  for (std::uint32_t i = 1; i < r.count; ++i)
    link(l, first + i - 1).store(first + i, memory_order_relaxed);
  return r;
}

/// Takes the oldest segment of `q`, if it is another queue than `own` and as steal_segment() wants
/// it. One thread calls, with the lock of `own`. Returns the segment or -1.
__device__ __forceinline__ std::int64_t take_segment(handle::lra_ref const& l, lra_queue& own,
                                                     lra_queue& q, std::uint32_t above) {
  auto const eligible = [&] {
    return word(q.count).load(memory_order_relaxed) > above &&
           (above != 0 || word(q.owned).load(memory_order_relaxed) == 0);
  };
  if (&q == &own || !eligible() || !try_lock(q)) return -1;
  std::int64_t segment = -1;
  if (eligible()) {
    segment = pop_segment(l, q);
    skip_taken(l, q);
    if (q.owned == 0) word(l.totals->unowned_segments).fetch_sub(1, memory_order_relaxed);
  }
  unlock(q);
  return segment;
}

/// Takes the oldest segment of another queue. If `above` is 0, that queue has no owner; otherwise
/// it has more than `above` segments. One thread calls, with the lock of `own`. Returns the segment
/// or -1.
__device__ __forceinline__ std::int64_t steal_segment(handle::lra_ref const& l, lra_queue& own,
                                                      std::uint32_t above) {
  std::uint32_t const first = word(l.totals->hint).load(memory_order_relaxed);
  std::uint32_t const queues = word(l.totals->used).load(memory_order_relaxed);
  auto const number = [&](std::uint32_t i) {
    return first + i < queues ? first + i : first + i - queues;  // the hint is in use
  };
  constexpr unsigned at_once = 8;  // loads under way
  GPUFS_ROLLED
  for (std::uint32_t next = 0; next < queues; next += at_once) {
    std::uint32_t count[at_once], owned[at_once];
    GPUFS_UNROLL
    for (unsigned i = 0; i < at_once; ++i) {
      bool const is = next + i < queues;
      lra_queue& q = l.queues[number(is ? next + i : 0)];
      count[i] = is ? word(q.count).load(memory_order_relaxed) : 0;
      owned[i] = is && above == 0 ? word(q.owned).load(memory_order_relaxed) : 0;
    }
    unsigned may = 0;
    GPUFS_UNROLL
    for (unsigned i = 0; i < at_once; ++i) may |= count[i] > above && owned[i] == 0 ? 1u << i : 0;
    GPUFS_ROLLED
    for (; may != 0; may &= may - 1) {
      std::uint32_t const at = number(next + lowest_lane(may));
      std::int64_t const segment = take_segment(l, own, l.queues[at], above);
      if (segment < 0) continue;
      word(l.totals->hint).store(at, memory_order_relaxed);
      return segment;
    }
  }
  return -1;
}

/// Appends a run to the queue if the current one is used up. One thread calls. If several warps of
/// the owner call at once, one appends. The others wait for its run or for the lock, which queues
/// that take segments hold, too. Returns false if there is no segment to take.
__device__ __forceinline__ bool advance(handle::lra_ref const& l, lra_queue& q,
                                        std::uint32_t frame_count) {
  atomic_ref<std::uint64_t, scope::device> cursor(q.cursor);
  for (unsigned pause = 0; !try_lock(q); backoff(pause))  // the holder never waits
    if (!l.used_up(cursor.load(memory_order_relaxed), frame_count)) return true;
  // These loads are under way together.
  std::uint64_t const at = cursor.load(memory_order_relaxed);
  std::uint32_t const used = word(l.totals->fresh).load(memory_order_relaxed);
  std::uint32_t const unowned = word(l.totals->unowned_segments).load(memory_order_relaxed);
  std::uint32_t const owners = word(l.totals->owners).load(memory_order_relaxed);
  std::uint32_t const count = word(q.count).load(memory_order_relaxed);
  bool ready = true;
  if (l.used_up(at, frame_count)) {
    segment_run next;
    auto const steal = [&](std::uint32_t above) {
      std::int64_t const segment = steal_segment(l, q, above);
      if (segment >= 0) next = {static_cast<std::uint32_t>(segment), 1};
    };
    std::uint32_t const limit = next_run(count);
    if (used < l.segment_count) next = take_fresh(l, limit);
    if (next.count == 0 && unowned != 0) steal(0);
    if (next.count == 0) {
      std::uint32_t const quota = l.segment_count / (owners == 0 ? 1 : owners);
      if (count < quota) steal(quota);
    }
    if (next.count == 0 && q.count != 0) next = pop_run(l, q, limit);
    ready = next.count != 0;
    if (ready) {
      push_run(l, q, next);
      cursor.store(handle::lra_ref::start_of(next.first, next.count), memory_order_relaxed);
    }
  }
  unlock(q);
  return ready;
}

/// Gives the seat's queue an owner, or removes it. One thread calls. Other queues may take the
/// segments of a queue without an owner.
__device__ __forceinline__ void own_queue(handle::lra_ref const& l, std::int32_t seat, bool own) {
  if (l.queues == nullptr) return;
  lra_queue& q = l.queues[seat];
  lock(q);
  word(q.owned).store(own ? 1 : 0, memory_order_relaxed);
  if (own) {
    word(l.totals->owners).fetch_add(1, memory_order_relaxed);
    word(l.totals->used).fetch_max(static_cast<std::uint32_t>(seat) + 1, memory_order_relaxed);
    word(l.totals->unowned_segments).fetch_sub(q.count, memory_order_relaxed);
  } else {
    word(l.totals->owners).fetch_sub(1, memory_order_relaxed);
    word(l.totals->unowned_segments).fetch_add(q.count, memory_order_relaxed);
  }
  unlock(q);
}

/// Draws the next `n` frames of the seat's queue. All lanes of the team call; the team belongs to
/// the seat's owner. Each seeking lane gets number `rank` of them if the run has so many.
/// `drawn` gets the first of them, or no_frame. Returns false in all lanes if the queue has no
/// frame.
template <class Team>
__device__ __forceinline__ bool lra_candidate(handle::page_cache_ref const& c, std::int32_t seat,
                                              bool seeks, unsigned n, unsigned rank,
                                              candidate_frame& mine, std::uint32_t& drawn) {
  lra_queue& q = c.lra.queues[seat];
  std::uint64_t at = 0;
  std::uint32_t more = 1;
  if (Team::lane() == 0) {
    // Other callers may draw from the cursor or take segments of the run meanwhile. Then claim()
    // decides.
    atomic_ref<std::uint64_t, scope::device> cursor(q.cursor);
    at = cursor.fetch_add(n, memory_order_relaxed);
    if (c.lra.used_up(at, c.frame_count)) {
      more = advance(c.lra, q, c.frame_count) ? 1 : 0;
      if (more != 0) at = cursor.fetch_add(n, memory_order_relaxed);
    }
  }
  if (Team::broadcast(more) == 0) return false;
  at = Team::broadcast(at);
  drawn = c.lra.used_up(at, c.frame_count) ? no_frame : c.lra.frame_at(at);
  std::uint64_t const own = at + rank;
  bool const valid = seeks && !c.lra.used_up(own, c.frame_count);
  mine = {valid, valid ? c.lra.frame_at(own) : 0};
  return true;
}

}  // namespace gpufs::cache
