// The page table: from (file version, page number) to a frame. Buckets of 32 entries, probed by a warp with one coalesced load.
#pragma once

#include <gpufs/cache/frame.hpp>
#include <gpufs/cache/geometry.hpp>
#include <gpufs/cache/settled.hpp>
#include <gpufs/fs_ref.hpp>
#include <gpufs/mix64.hpp>
#include <gpufs/wait.hpp>
#include <gpufs/warp.hpp>

#include <cstdint>

namespace gpufs {

static_assert(bucket_ways == warp_size);

/// Where a page's entry can be. An entry is tag << 32 | (frame + 1), or 0. The tag only narrows the search: the frame's header names
/// the page in full, so that equal tags never mix up pages.
struct page_location {
  std::uint64_t bucket;
  std::uint32_t tag;

  /// The way where a lane that looks by itself begins; the entry is in the first way from there on that was free.
  __device__ unsigned home() const { return tag % bucket_ways; }
};

__device__ __forceinline__ page_location locate(page_cache_ref const& c, std::uint64_t uid, std::uint64_t page) {
  std::uint64_t const h = mix64(page + mix64(uid + 0x9e3779b97f4a7c15ull));
  return {(h >> 32) * c.bucket_count >> 32, static_cast<std::uint32_t>(h)};  // bucket_count < 2^32
}

__device__ __forceinline__ atomic_ref<std::uint64_t, scope::device> bucket_entry(page_cache_ref const& c, std::uint64_t bucket,
                                                                                 unsigned way) {
  return atomic_ref<std::uint64_t, scope::device>(c.buckets[bucket * bucket_ways + way]);
}

__device__ __forceinline__ bool names(frame_header& h, std::uint64_t uid, std::uint64_t page) {
  std::uint64_t const u = atomic_ref<std::uint64_t, scope::device>(h.uid).load(memory_order_relaxed);
  std::uint64_t const p = atomic_ref<std::uint64_t, scope::device>(h.page).load(memory_order_relaxed);
  return ((u ^ uid) | (p ^ page)) == 0;  // both loads are under way before either is needed
}

/// Before a frame is entered: whoever finds the entry under the bucket's lock reads the name that begin_fill() has given it.
__device__ __forceinline__ void settle_name(frame_header const& h) {
  settle(h.uid);
  settle(h.page);
}

__device__ __forceinline__ std::byte* frame_bytes(page_cache_ref const& c, std::uint32_t frame) {
  return c.frames + (std::uint64_t(frame) << c.page_shift);
}

enum class lookup_result : std::uint32_t {
  absent,   ///< not in the table
  hit,      ///< ready and pinned
  filling,  ///< pinned; somebody else is bringing it in (or, rarely, another page: ask again when it is ready)
};

struct lookup {
  lookup_result result;
  std::uint32_t frame;
  std::uint32_t valid;  ///< hit: bytes that the page has
};

/// Finds and pins a page. All lanes of a warp call, all get the answer. Never waits for longer than an eviction takes.
__device__ __forceinline__ lookup find_and_pin(page_cache_ref const& c, std::uint64_t uid, std::uint64_t page) {
  page_location const at = locate(c, uid, page);
  unsigned const lane = lane_id();
  for (unsigned pause = 0;;) {
    std::uint64_t const entry = bucket_entry(c, at.bucket, lane).load(memory_order_relaxed);
    unsigned candidates = __ballot_sync(all_lanes, entry != 0 && static_cast<std::uint32_t>(entry >> 32) == at.tag);
    bool passing = false;
    while (candidates != 0) {
      int const from = __ffs(static_cast<int>(candidates)) - 1;
      candidates &= candidates - 1;
      std::uint32_t const frame = warp_broadcast(static_cast<std::uint32_t>(entry), from) - 1;
      std::uint32_t answer = 0;  // 0: another page or gone; 1: hit; 2: filling; 3: being thrown out
      std::uint32_t valid = 0;
      if (lane == 0) {
        frame_header& h = c.headers[frame];
        phase const p = phase_of(pin(h));
        // Loaded together with the name, in one trip; it means something only if the page is ready.
        valid = valid_bytes(h);
        bool const ours = names(h, uid, page);
        if (p == phase::evicting) {
          answer = 3;
        } else if ((p == phase::ready || p == phase::filling) && ours) {
          answer = p == phase::ready ? 1 : 2;
          if (c.policy == replacement::clock)
            atomic_ref<std::uint32_t, scope::device>(h.referenced).store(1, memory_order_relaxed);
        }
        if (answer == 0 || answer == 3) unpin_read(h);
      }
      answer = warp_broadcast(answer);
      __syncwarp();  // all lanes come after lane 0's acquire
      if (answer == 1) return {lookup_result::hit, frame, warp_broadcast(valid)};
      if (answer == 2) return {lookup_result::filling, frame, 0};
      passing |= answer == 3;
    }
    if (!passing) return {lookup_result::absent, 0, 0};
    // An owner is about to take the entry out (it never waits while it evicts): look again. `evicting` cannot last.
    backoff(pause);
  }
}

/// The first way of those in `ways`, not 0, from `home` on.
__device__ __forceinline__ unsigned first_way(unsigned ways, unsigned home) {
  return (static_cast<unsigned>(__ffs(static_cast<int>(__funnelshift_r(ways, ways, home)))) - 1 + home) % bucket_ways;
}

enum class insert_result : std::uint32_t { inserted, duplicate, full };

namespace detail {

/// Buckets of several lanes' pages that a warp has on their way at once: a trip to memory costs as much for one as for four.
inline constexpr unsigned buckets_at_once = 4;

/// Calls visit(lane, entry) for each lane whose bit is set in `lanes`, uniformly, with the entries of that lane's bucket: way w in lane w.
template <class Visit>
__device__ __forceinline__ void visit_buckets(page_cache_ref const& c, unsigned lanes, std::uint64_t bucket, Visit&& visit) {
  while (lanes != 0) {
    int from[buckets_at_once];
    std::uint64_t entry[buckets_at_once];
    GPUFS_UNROLL
    for (unsigned i = 0; i < buckets_at_once; ++i) {
      from[i] = __ffs(static_cast<int>(lanes)) - 1;
      lanes &= lanes - 1;
      std::uint64_t const theirs = warp_broadcast(bucket, from[i] < 0 ? 0 : from[i]);
      entry[i] = from[i] < 0 ? 0 : bucket_entry(c, theirs, lane_id()).load(memory_order_relaxed);
    }
    GPUFS_UNROLL
    for (unsigned i = 0; i < buckets_at_once; ++i) {
      if (from[i] >= 0) visit(from[i], entry[i]);
    }
  }
}

}  // namespace detail

/// Enters the frames that lanes with `mine` are filling, each under its lane's name, unless a page is there already. All lanes call; each
/// gets its own result. The bucket's lock keeps two callers that miss one page from both entering it; look-ups and removals need no
/// lock. A lane whose bucket is locked tries again when the others are done: nobody waits while holding a lock.
__device__ __forceinline__ insert_result insert_each(page_cache_ref const& c, bool mine, std::uint64_t uid, std::uint64_t page,
                                                     std::uint32_t frame) {
  page_location const at = locate(c, uid, page);
  unsigned const lane = lane_id();
  insert_result result = insert_result::duplicate;
  unsigned way = 0;  // where the lane's page was entered
  if (mine) settle_name(c.headers[frame]);
  for (unsigned pause = 0;;) {
    // Acquire pairs with the unlocking below: we see what the last holder entered, and the names of those frames.
    bool const locked =
        mine && atomic_ref<std::uint32_t, scope::device>(c.bucket_locks[at.bucket]).exchange(1, memory_order_acquire) == 0;
    unsigned const holders = __ballot_sync(all_lanes, locked);
    __syncwarp();
    detail::visit_buckets(c, holders, at.bucket, [&](int from, std::uint64_t entry) {
      std::uint32_t const tag = warp_broadcast(at.tag, from);
      std::uint64_t const their_uid = warp_broadcast(uid, from);
      std::uint64_t const their_page = warp_broadcast(page, from);
      std::uint32_t const their_frame = warp_broadcast(frame, from);
      // An entry whose header names the page is a duplicate, also when it is about to go: the caller looks again.
      bool const same = entry != 0 && static_cast<std::uint32_t>(entry >> 32) == tag &&
                        names(c.headers[static_cast<std::uint32_t>(entry) - 1], their_uid, their_page);
      unsigned const duplicates = __ballot_sync(all_lanes, same);
      unsigned const free = __ballot_sync(all_lanes, entry == 0);
      page_location const theirs = locate(c, their_uid, their_page);
      unsigned const chosen = free != 0 ? first_way(free, theirs.home()) : 0;
      if (duplicates == 0 && free != 0 && lane == chosen) {
        bucket_entry(c, theirs.bucket, lane).store(std::uint64_t(tag) << 32 | (their_frame + 1), memory_order_relaxed);
      }
      if (lane == static_cast<unsigned>(from)) {
        way = chosen;
        result = duplicates != 0 ? insert_result::duplicate : free != 0 ? insert_result::inserted : insert_result::full;
      }
    });
    __syncwarp();
    if (locked) {
      // All at once, each lane what another one has stored for it.
      if (result == insert_result::inserted) settle(c.buckets[at.bucket * bucket_ways + way]);
      atomic_ref<std::uint32_t, scope::device>(c.bucket_locks[at.bucket]).store(0, after_settling);
      mine = false;
    }
    if (__ballot_sync(all_lanes, mine) == 0) return result;
    if (holders == 0) backoff(pause);  // holders run a few instructions and never wait, so this wait is bounded
  }
}

/// Takes the entries of the frames out that lanes with `mine` own (evicting or filling); nobody else changes those entries. All lanes call.
__device__ __forceinline__ void remove_each(page_cache_ref const& c, bool mine, std::uint32_t frame) {
  page_location at{0, 0};
  if (mine) {
    frame_header& h = c.headers[frame];
    at = locate(c, atomic_ref<std::uint64_t, scope::device>(h.uid).load(memory_order_relaxed),
                atomic_ref<std::uint64_t, scope::device>(h.page).load(memory_order_relaxed));
  }
  std::uint64_t const own = std::uint64_t(at.tag) << 32 | (frame + 1);
  detail::visit_buckets(c, __ballot_sync(all_lanes, mine), at.bucket, [&](int from, std::uint64_t entry) {
    std::uint64_t const bucket = warp_broadcast(at.bucket, from);
    if (entry == warp_broadcast(own, from)) bucket_entry(c, bucket, lane_id()).store(0, memory_order_relaxed);
  });
  __syncwarp();
}

/// The same for one frame, the same in all lanes.
__device__ __forceinline__ void remove(page_cache_ref const& c, std::uint32_t frame) { remove_each(c, lane_id() == 0, frame); }

/// Makes room in the bucket where a page belongs by throwing out one of its ready, unpinned pages. All lanes call; returns whether
/// one went. The rule for the rare bucket that is full.
__device__ __forceinline__ bool evict_from_bucket(page_cache_ref const& c, std::uint64_t uid, std::uint64_t page) {
  page_location const at = locate(c, uid, page);
  for (unsigned way = 0; way < bucket_ways; ++way) {
    std::uint32_t gone = 0;
    std::uint32_t frame = 0;
    if (lane_id() == 0) {
      std::uint64_t const entry = bucket_entry(c, at.bucket, way).load(memory_order_relaxed);
      frame = static_cast<std::uint32_t>(entry) - 1;
      if (entry != 0) {
        phase const was = claim(c.headers[frame]);
        if (was == phase::ready) {
          gone = 1;
        } else if (was != phase::evicting) {
          release_evicting(c.headers[frame]);  // not in the table any more
        }
      }
    }
    gone = warp_broadcast(gone);
    if (gone == 0) continue;
    frame = warp_broadcast(frame);
    remove(c, frame);
    if (lane_id() == 0) release_evicting(c.headers[frame]);
    __syncwarp();
    return true;
  }
  return false;
}

}  // namespace gpufs
