// The page table: from (file version, page number) to a frame. A bucket has 32 entries. A warp
// looks a bucket up with one coalesced load; single lanes change it.
#pragma once

#include <gpufs/base/mix64.hpp>
#include <gpufs/base/settled.hpp>
#include <gpufs/base/warp.hpp>
#include <gpufs/cache/frame.hpp>
#include <gpufs/cache/geometry.hpp>
#include <gpufs/cache/replacement/policies.hpp>
#include <gpufs/fs_ref.hpp>
#include <gpufs/handle/deadline.hpp>

#include <cstdint>

namespace gpufs::cache {

using namespace base;

static_assert(bucket_ways == warp_size);

/// Where a page's entry can be. An entry is tag << 32 | (frame + 1), or 0. The tag only narrows the
/// search. The frame's header names the page in full, so equal tags never mix up pages.
struct page_location {
  std::uint64_t bucket;
  std::uint32_t tag;

  /// The first way that a single lane looks at. A new entry takes the first free way from there on.
  __device__ unsigned home() const { return tag % bucket_ways; }

  /// Whether an entry of the bucket may be the page's.
  __device__ bool may_be(std::uint64_t entry) const {
    return entry != 0 && static_cast<std::uint32_t>(entry >> 32) == tag;
  }
};

__device__ __forceinline__ page_location locate(handle::page_cache_ref const& c,
                                                std::uint64_t version, std::uint64_t page) {
  // 2^64 over the golden ratio: pages of versions near each other lie far apart before they are
  // mixed.
  std::uint64_t const h = mix64(page + version * 0x9e3779b97f4a7c15ull);
  return {(h >> 32) * c.bucket_count >> 32, static_cast<std::uint32_t>(h)};
}

__device__ __forceinline__ atomic_ref<std::uint64_t, scope::device> bucket_entry(
    handle::page_cache_ref const& c, std::uint64_t bucket, unsigned way) {
  return atomic_ref<std::uint64_t, scope::device>(c.buckets[bucket * bucket_ways + way]);
}

__device__ __forceinline__ bool names(frame_header& h, std::uint64_t version, std::uint64_t page) {
  std::uint64_t const u =
      atomic_ref<std::uint64_t, scope::device>(h.version).load(memory_order_relaxed);
  std::uint64_t const p =
      atomic_ref<std::uint64_t, scope::device>(h.page).load(memory_order_relaxed);
  return ((u ^ version) | (p ^ page)) == 0;  // both loads are under way before either is needed
}

/// Settles the frame's name. Call it before the frame is entered. A thread that finds the entry
/// under the bucket's lock then reads the name that begin_fill() stored.
__device__ __forceinline__ void settle_name(frame_header const& h) { settle(h.version, h.page); }

__device__ __forceinline__ std::byte* frame_bytes(handle::page_cache_ref const& c,
                                                  std::uint32_t frame) {
  return c.frames + (std::uint64_t(frame) << c.page_shift);
}

/// The header of the frame that has the byte.
__device__ __forceinline__ frame_header* header_of(handle::page_cache_ref const& c,
                                                   std::byte const* byte) {
  return &c.headers[static_cast<std::uint64_t>(byte - c.frames) >> c.page_shift];
}

enum class lookup_result : std::uint32_t {
  absent,  ///< not in the table
  hit,     ///< ready and pinned
  /// pinned; another caller fills it. Rarely it is another page: ask again once it is ready.
  filling,
};

struct lookup {
  lookup_result result;
  std::uint32_t frame;
  std::uint32_t valid;  ///< hit: bytes of the page that the file has
};

/// What a look at the frame of a possible entry has shown. hit and filling: the page is pinned.
enum class entry_look : std::uint32_t {
  other,  ///< another page, or gone
  hit,
  filling,
  evicting,
};

/// Finds and pins a page. All lanes of a warp call and get the answer. Waits at most as long as an
/// eviction takes.
__device__ __forceinline__ lookup find_and_pin(handle::page_cache_ref const& c,
                                               std::uint64_t version, std::uint64_t page) {
  page_location const at = locate(c, version, page);
  unsigned const lane = lane_id();
  for (unsigned pause = 0;;) {
    std::uint64_t const entry = bucket_entry(c, at.bucket, lane).load(memory_order_relaxed);
    unsigned candidates = __ballot_sync(all_lanes, at.may_be(entry));
    bool passing = false;
    while (candidates != 0) {
      unsigned const from = lowest_lane(candidates);
      candidates &= candidates - 1;
      std::uint32_t const frame = warp_broadcast(static_cast<std::uint32_t>(entry), from) - 1;
      entry_look answer = entry_look::other;
      std::uint32_t valid = 0;
      if (lane == 0) {
        frame_header& h = c.headers[frame];
        phase const p = phase_of(pin(h));
        // Loaded in one trip with the name. Valid only if the page is ready.
        valid = valid_bytes(h);
        bool const ours = names(h, version, page);
        if (p == phase::evicting) {
          answer = entry_look::evicting;
        } else if ((p == phase::ready || p == phase::filling) && ours) {
          answer = p == phase::ready ? entry_look::hit : entry_look::filling;
          if (marks_hits(c.policy))
            atomic_ref<std::uint32_t, scope::device>(h.referenced).store(1, memory_order_relaxed);
        }
        if (answer == entry_look::other || answer == entry_look::evicting) unpin_read(h);
      }
      answer = static_cast<entry_look>(warp_broadcast(static_cast<std::uint32_t>(answer)));
      __syncwarp();  // all lanes come after lane 0's acquire
      if (answer == entry_look::hit) return {lookup_result::hit, frame, warp_broadcast(valid)};
      if (answer == entry_look::filling) return {lookup_result::filling, frame, 0};
      passing |= answer == entry_look::evicting;
    }
    if (!passing) return {lookup_result::absent, 0, 0};
    // An owner is about to remove the entry. It never waits while it evicts, so this loop ends.
    backoff(pause);
  }
}

/// Which of a few pages the table has an entry for that may be the page's: bit i is page[i]. Costs
/// one trip, and pins nothing. The answer may be old when it is there. All lanes of a warp call,
/// with the same pages.
template <unsigned Count>
__device__ __forceinline__ std::uint32_t may_have_each(handle::page_cache_ref const& c,
                                                       std::uint64_t version,
                                                       std::uint64_t const (&page)[Count]) {
  std::uint64_t entry[Count];
  GPUFS_UNROLL
  for (unsigned i = 0; i < Count; ++i)
    entry[i] =
        bucket_entry(c, locate(c, version, page[i]).bucket, lane_id()).load(memory_order_relaxed);
  std::uint32_t had = 0;
  GPUFS_UNROLL
  for (unsigned i = 0; i < Count; ++i) {
    if (__ballot_sync(all_lanes, locate(c, version, page[i]).may_be(entry[i])) != 0) had |= 1u << i;
  }
  return had;
}

/// Returns the first way in `ways` from `home` on. `ways` is not 0.
__device__ __forceinline__ unsigned first_way(unsigned ways, unsigned home) {
  return (lowest_lane(__funnelshift_r(ways, ways, home)) + home) % bucket_ways;
}

enum class insert_result : std::uint32_t { inserted, duplicate, full };

// Each lane changes the table for its own page, and the lanes of a warp work side by side. So a
// batch of pages costs little more than one page.

/// Calls visit(way, entry) for the ways of a bucket, from `home` on, until it returns true. Any
/// single thread calls. Returns whether it did. Four loads are under way at a time.
template <class Visit>
__device__ __forceinline__ bool lane_visit(handle::page_cache_ref const& c, std::uint64_t bucket,
                                           unsigned home, Visit&& visit) {
  GPUFS_ROLLED
  for (unsigned step = 0; step < bucket_ways; step += 4) {
    std::uint64_t entry[4];
    GPUFS_UNROLL
    for (unsigned i = 0; i < 4; ++i)
      entry[i] =
          bucket_entry(c, bucket, (home + step + i) % bucket_ways).load(memory_order_relaxed);
    GPUFS_UNROLL
    for (unsigned i = 0; i < 4; ++i) {
      if (visit((home + step + i) % bucket_ways, entry[i])) return true;
    }
  }
  return false;
}

/// Stores a frame's entry to a free way, and settles it. One thread calls, with the bucket's lock.
__device__ __forceinline__ void store_entry(handle::page_cache_ref const& c,
                                            page_location const& at, unsigned way,
                                            std::uint32_t frame) {
  bucket_entry(c, at.bucket, way)
      .store(std::uint64_t(at.tag) << 32 | (frame + 1), memory_order_relaxed);
  settle(c.buckets[at.bucket * bucket_ways + way]);
}

/// Enters a frame under its name, which is settled. The filler calls, and holds the bucket's lock.
__device__ __forceinline__ insert_result enter_locked(handle::page_cache_ref const& c,
                                                      page_location const& at,
                                                      std::uint64_t version, std::uint64_t page,
                                                      std::uint32_t frame) {
  // loads under way: two trips to memory for the bucket
  constexpr unsigned at_once = 16;
  unsigned free = 0;
  unsigned alike = 0;
  GPUFS_ROLLED
  for (unsigned first = 0; first < bucket_ways; first += at_once) {
    std::uint64_t entry[at_once];
    GPUFS_UNROLL
    for (unsigned i = 0; i < at_once; ++i)
      entry[i] = bucket_entry(c, at.bucket, first + i).load(memory_order_relaxed);
    GPUFS_UNROLL
    for (unsigned i = 0; i < at_once; ++i) {
      if (entry[i] == 0) free |= 1u << (first + i);
      if (at.may_be(entry[i])) alike |= 1u << (first + i);
    }
  }
  GPUFS_ROLLED
  for (; alike != 0; alike &= alike - 1) {
    // Look again, since the entry may be gone. The lock keeps other entries out.
    auto const way = lowest_lane(alike);
    std::uint64_t const entry = bucket_entry(c, at.bucket, way).load(memory_order_relaxed);
    // The header names the page: a duplicate, even if it is being evicted. The caller looks again.
    if (entry != 0 && names(c.headers[static_cast<std::uint32_t>(entry) - 1], version, page))
      return insert_result::duplicate;
  }
  if (free == 0) return insert_result::full;
  store_entry(c, at, first_way(free, at.home()), frame);
  return insert_result::inserted;
}

/// Enters a frame under its name, unless the page is in the table. Any single thread calls; it is
/// the frame's filler. The bucket's lock prevents that two callers that miss one page both enter
/// it. Look-ups and removals need no lock. A holder of the lock never waits.
__device__ __forceinline__ insert_result lane_insert(handle::page_cache_ref const& c,
                                                     std::uint64_t version, std::uint64_t page,
                                                     std::uint32_t frame) {
  page_location const at = locate(c, version, page);
  atomic_ref<std::uint32_t, scope::device> lock(c.bucket_locks[at.bucket]);
  settle_name(c.headers[frame]);
  insert_result result = insert_result::duplicate;
  // One turn of the loop takes and releases the lock. So lanes of one warp that need the same lock
  // make progress, even if they run in step.
  unsigned pause = 0;
  for (bool done = false; !done;) {
    // Pairs with the store below: we see the last holder's entries, and the names of those frames.
    if (lock.exchange(1, memory_order_acquire) == 0) {
      result = enter_locked(c, at, version, page, frame);
      lock.store(0, after_settling);
      done = true;
    } else {
      backoff(pause);  // holders run a few instructions: the wait is bounded
    }
  }
  return result;
}

/// The same for each lane with `mine`. All lanes of a warp call; each gets its own result.
__device__ __forceinline__ insert_result insert_each(handle::page_cache_ref const& c, bool mine,
                                                     std::uint64_t version, std::uint64_t page,
                                                     std::uint32_t frame) {
  insert_result const result =
      mine ? lane_insert(c, version, page, frame) : insert_result::duplicate;
  __syncwarp();
  return result;
}

/// Removes the entry of a frame. Any single thread calls; it owns the frame (evicting or filling).
/// No other thread changes this entry.
__device__ __forceinline__ void lane_remove(handle::page_cache_ref const& c, std::uint32_t frame) {
  frame_header& h = c.headers[frame];
  page_location const at =
      locate(c, atomic_ref<std::uint64_t, scope::device>(h.version).load(memory_order_relaxed),
             atomic_ref<std::uint64_t, scope::device>(h.page).load(memory_order_relaxed));
  std::uint64_t const own = std::uint64_t(at.tag) << 32 | (frame + 1);
  lane_visit(c, at.bucket, at.home(), [&](unsigned way, std::uint64_t entry) {
    if (entry != own) return false;
    bucket_entry(c, at.bucket, way).store(0, memory_order_relaxed);
    return true;
  });
}

/// The same for each lane with `mine`. All lanes of a warp call.
__device__ __forceinline__ void remove_each(handle::page_cache_ref const& c, bool mine,
                                            std::uint32_t frame) {
  if (mine) lane_remove(c, frame);
  __syncwarp();
}

/// The same for one frame, which is the same in all lanes. All lanes of a warp call.
__device__ __forceinline__ void remove(handle::page_cache_ref const& c, std::uint32_t frame) {
  remove_each(c, lane_id() == 0, frame);
}

}  // namespace gpufs::cache
