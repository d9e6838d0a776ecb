// The page table: from (file version, page number) to a frame. Buckets of 32 entries, looked up by
// a warp with one coalesced load, changed by a lane for each page.
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

/// Where a page's entry can be. An entry is tag << 32 | (frame + 1), or 0. The tag only narrows the
/// search: the frame's header names the page in full, so that equal tags never mix up pages.
struct page_location {
  std::uint64_t bucket;
  std::uint32_t tag;

  /// The way where a lane that looks by itself begins; the entry is in the first way from there on
  /// that was free.
  __device__ unsigned home() const { return tag % bucket_ways; }

  /// Whether an entry of the bucket may be the page's.
  __device__ bool may_be(std::uint64_t entry) const {
    return entry != 0 && static_cast<std::uint32_t>(entry >> 32) == tag;
  }
};

__device__ __forceinline__ page_location locate(page_cache_ref const& c, std::uint64_t uid,
                                                std::uint64_t page) {
  std::uint64_t const h = mix64(page + mix64(uid + 0x9e3779b97f4a7c15ull));
  return {(h >> 32) * c.bucket_count >> 32, static_cast<std::uint32_t>(h)};  // bucket_count < 2^32
}

__device__ __forceinline__ atomic_ref<std::uint64_t, scope::device> bucket_entry(
    page_cache_ref const& c, std::uint64_t bucket, unsigned way) {
  return atomic_ref<std::uint64_t, scope::device>(c.buckets[bucket * bucket_ways + way]);
}

__device__ __forceinline__ bool names(frame_header& h, std::uint64_t uid, std::uint64_t page) {
  std::uint64_t const u =
      atomic_ref<std::uint64_t, scope::device>(h.uid).load(memory_order_relaxed);
  std::uint64_t const p =
      atomic_ref<std::uint64_t, scope::device>(h.page).load(memory_order_relaxed);
  return ((u ^ uid) | (p ^ page)) == 0;  // both loads are under way before either is needed
}

/// Before a frame is entered: whoever finds the entry under the bucket's lock reads the name that
/// begin_fill() has given it.
__device__ __forceinline__ void settle_name(frame_header const& h) { settle(h.uid, h.page); }

__device__ __forceinline__ std::byte* frame_bytes(page_cache_ref const& c, std::uint32_t frame) {
  return c.frames + (std::uint64_t(frame) << c.page_shift);
}

enum class lookup_result : std::uint32_t {
  absent,   ///< not in the table
  hit,      ///< ready and pinned
  filling,  ///< pinned; somebody else is bringing it in (or, rarely, another page: ask again when
            ///< it is ready)
};

struct lookup {
  lookup_result result;
  std::uint32_t frame;
  std::uint32_t valid;  ///< hit: bytes that the page has
};

/// Finds and pins a page. All lanes of a warp call, all get the answer. Never waits for longer than
/// an eviction takes.
__device__ __forceinline__ lookup find_and_pin(page_cache_ref const& c, std::uint64_t uid,
                                               std::uint64_t page) {
  page_location const at = locate(c, uid, page);
  unsigned const lane = lane_id();
  for (unsigned pause = 0;;) {
    std::uint64_t const entry = bucket_entry(c, at.bucket, lane).load(memory_order_relaxed);
    unsigned candidates = __ballot_sync(all_lanes, at.may_be(entry));
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
    // An owner is about to take the entry out (it never waits while it evicts): look again.
    // `evicting` cannot last.
    backoff(pause);
  }
}

/// The first way of those in `ways`, not 0, from `home` on.
__device__ __forceinline__ unsigned first_way(unsigned ways, unsigned home) {
  return (static_cast<unsigned>(__ffs(static_cast<int>(__funnelshift_r(ways, ways, home)))) - 1 +
          home) %
         bucket_ways;
}

enum class insert_result : std::uint32_t { inserted, duplicate, full };

// What changes the table is done by each lane for its own page, side by side with the others of its
// warp: a batch of pages costs little more than one, where a warp that took them in turn would pay
// for each.

namespace detail {

/// Calls visit(way, entry) for the ways of a bucket from `home` on until it says true; returns
/// whether it did. Four loads are under way at a time. Any single thread calls.
template <class Visit>
__device__ __forceinline__ bool lane_visit(page_cache_ref const& c, std::uint64_t bucket,
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

/// Enters a frame that the calling thread is filling, whose name is settled, under that name. The
/// thread holds the bucket's lock.
__device__ __forceinline__ insert_result enter_locked(page_cache_ref const& c,
                                                      page_location const& at, std::uint64_t uid,
                                                      std::uint64_t page, std::uint32_t frame) {
  constexpr unsigned at_once = 16;  // loads under way: the whole bucket in two trips to memory
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
    // Looked at again: it may have been taken out since, but nobody enters another under our lock.
    auto const way = static_cast<unsigned>(__ffs(static_cast<int>(alike)) - 1);
    std::uint64_t const entry = bucket_entry(c, at.bucket, way).load(memory_order_relaxed);
    // An entry whose header names the page is a duplicate, also when it is about to go: the caller
    // looks again.
    if (entry != 0 && names(c.headers[static_cast<std::uint32_t>(entry) - 1], uid, page))
      return insert_result::duplicate;
  }
  if (free == 0) return insert_result::full;
  unsigned const way = first_way(free, at.home());
  bucket_entry(c, at.bucket, way)
      .store(std::uint64_t(at.tag) << 32 | (frame + 1), memory_order_relaxed);
  settle(c.buckets[at.bucket * bucket_ways + way]);
  return insert_result::inserted;
}

}  // namespace detail

/// Enters the frame that the calling thread is filling under its name, unless the page is there
/// already. Any single thread calls. The bucket's lock keeps two callers that miss one page from
/// both entering it; look-ups and removals need no lock. Nobody waits while holding a lock.
__device__ __forceinline__ insert_result lane_insert(page_cache_ref const& c, std::uint64_t uid,
                                                     std::uint64_t page, std::uint32_t frame) {
  page_location const at = locate(c, uid, page);
  atomic_ref<std::uint32_t, scope::device> lock(c.bucket_locks[at.bucket]);
  settle_name(c.headers[frame]);
  insert_result result = insert_result::duplicate;
  // The lock is held within one turn of the loop, so that lanes of one warp that want the same one
  // pass, also where they run in step.
  unsigned pause = 0;
  for (bool done = false; !done;) {
    // Acquire pairs with the unlocking below: we see what the last holder entered, and the names of
    // those frames.
    if (lock.exchange(1, memory_order_acquire) == 0) {
      result = detail::enter_locked(c, at, uid, page, frame);
      lock.store(0, after_settling);
      done = true;
    } else {
      backoff(pause);  // holders run a few instructions, so this wait is bounded
    }
  }
  return result;
}

/// The same for each lane with `mine`. All lanes of a warp call; each gets its own result.
__device__ __forceinline__ insert_result insert_each(page_cache_ref const& c, bool mine,
                                                     std::uint64_t uid, std::uint64_t page,
                                                     std::uint32_t frame) {
  insert_result const result = mine ? lane_insert(c, uid, page, frame) : insert_result::duplicate;
  __syncwarp();
  return result;
}

/// Takes the entry of a frame out that the calling thread owns (evicting or filling); nobody else
/// changes that entry. Any single thread calls.
__device__ __forceinline__ void lane_remove(page_cache_ref const& c, std::uint32_t frame) {
  frame_header& h = c.headers[frame];
  page_location const at =
      locate(c, atomic_ref<std::uint64_t, scope::device>(h.uid).load(memory_order_relaxed),
             atomic_ref<std::uint64_t, scope::device>(h.page).load(memory_order_relaxed));
  std::uint64_t const own = std::uint64_t(at.tag) << 32 | (frame + 1);
  detail::lane_visit(c, at.bucket, at.home(), [&](unsigned way, std::uint64_t entry) {
    if (entry != own) return false;
    bucket_entry(c, at.bucket, way).store(0, memory_order_relaxed);
    return true;
  });
}

/// The same for each lane with `mine`. All lanes of a warp call.
__device__ __forceinline__ void remove_each(page_cache_ref const& c, bool mine,
                                            std::uint32_t frame) {
  if (mine) lane_remove(c, frame);
  __syncwarp();
}

/// The same for one frame, the same in all lanes.
__device__ __forceinline__ void remove(page_cache_ref const& c, std::uint32_t frame) {
  remove_each(c, lane_id() == 0, frame);
}

/// Makes room in the bucket where a page belongs by throwing out one of its ready, unpinned pages:
/// the rule for the rare bucket that is full. Any single thread calls. Returns whether one went.
__device__ __forceinline__ bool evict_from_bucket(page_cache_ref const& c, std::uint64_t uid,
                                                  std::uint64_t page) {
  page_location const at = locate(c, uid, page);
  return detail::lane_visit(c, at.bucket, at.home(), [&](unsigned, std::uint64_t entry) {
    if (entry == 0) return false;
    auto const frame = static_cast<std::uint32_t>(entry) - 1;
    phase const was = claim(c.headers[frame]);
    if (was == phase::evicting) return false;
    if (was == phase::ready) lane_remove(c, frame);
    release_evicting(c.headers[frame]);
    return was == phase::ready;
  });
}

}  // namespace gpufs
