// The page table for lanes that look, enter and remove each by itself, whatever the others of their warp do: what array elements need under
// divergence. The entries, locks and rules are those of page_table.hpp; a lane reads a bucket way by way, from the page's home on.
#pragma once

#include <gpufs/cache/page_table.hpp>

#include <cstdint>

namespace gpufs {

namespace detail {

/// Pins the frame and says whether it has the page: the lookup, or `absent` with nothing pinned. `passing`: set if it is being thrown out.
__device__ __forceinline__ lookup lane_pin(page_cache_ref const& c, std::uint32_t frame, std::uint64_t uid, std::uint64_t page,
                                           bool& passing) {
  frame_header& h = c.headers[frame];
  phase const p = phase_of(pin(h));
  std::uint32_t const valid = valid_bytes(h);
  bool const ours = names(h, uid, page);
  if (ours && (p == phase::ready || p == phase::filling)) {
    if (c.policy == replacement::clock) atomic_ref<std::uint32_t, scope::device>(h.referenced).store(1, memory_order_relaxed);
    return {p == phase::ready ? lookup_result::hit : lookup_result::filling, frame, valid};
  }
  passing |= p == phase::evicting;
  unpin_read(h);
  return {lookup_result::absent, 0, 0};
}

/// Calls visit(way, entry) for the ways of a bucket from `home` on until it says true; returns whether it did. Four loads are under way at a time.
template <class Visit>
__device__ __forceinline__ bool lane_visit(page_cache_ref const& c, std::uint64_t bucket, unsigned home, Visit&& visit) {
  for (unsigned step = 0; step < bucket_ways; step += 4) {
    std::uint64_t entry[4];
    GPUFS_UNROLL
    for (unsigned i = 0; i < 4; ++i)
      entry[i] = bucket_entry(c, bucket, (home + step + i) % bucket_ways).load(memory_order_relaxed);
    GPUFS_UNROLL
    for (unsigned i = 0; i < 4; ++i) {
      if (visit((home + step + i) % bucket_ways, entry[i])) return true;
    }
  }
  return false;
}

}  // namespace detail

/// Finds and pins a page, as find_and_pin() does. Any single thread calls. At a table's usual load the first look at its home finds it.
__device__ __forceinline__ lookup lane_find_and_pin(page_cache_ref const& c, std::uint64_t uid, std::uint64_t page) {
  page_location const at = locate(c, uid, page);
  auto const maybe = [&](std::uint64_t entry) { return entry != 0 && static_cast<std::uint32_t>(entry >> 32) == at.tag; };
  for (unsigned pause = 0;;) {
    bool passing = false;
    lookup found{lookup_result::absent, 0, 0};
    std::uint64_t const first = bucket_entry(c, at.bucket, at.home()).load(memory_order_relaxed);
    if (maybe(first)) found = detail::lane_pin(c, static_cast<std::uint32_t>(first) - 1, uid, page, passing);
    if (found.result == lookup_result::absent) {
      detail::lane_visit(c, at.bucket, at.home() + 1, [&](unsigned, std::uint64_t entry) {
        if (!maybe(entry)) return false;
        found = detail::lane_pin(c, static_cast<std::uint32_t>(entry) - 1, uid, page, passing);
        return found.result != lookup_result::absent;
      });
    }
    if (found.result != lookup_result::absent || !passing) return found;
    backoff(pause);  // the owner is about to take the entry out, and never waits while it evicts
  }
}

/// Enters the frame that the calling thread is filling under its name, as insert_each() does. Any single thread calls.
__device__ __forceinline__ insert_result lane_insert(page_cache_ref const& c, std::uint64_t uid, std::uint64_t page,
                                                     std::uint32_t frame) {
  page_location const at = locate(c, uid, page);
  atomic_ref<std::uint32_t, scope::device> lock(c.bucket_locks[at.bucket]);
  settle_name(c.headers[frame]);
  // The lock is held within one turn of the loop, so that lanes of one warp that want the same one pass, also where they run in step.
  for (unsigned pause = 0;; backoff(pause)) {
    // Acquire pairs with the unlocking below and in insert_each(): we see what the last holder entered.
    if (lock.exchange(1, memory_order_acquire) != 0) continue;
    unsigned free = bucket_ways;
    bool const duplicate = detail::lane_visit(c, at.bucket, at.home(), [&](unsigned way, std::uint64_t entry) {
      if (entry == 0 && free == bucket_ways) free = way;
      return entry != 0 && static_cast<std::uint32_t>(entry >> 32) == at.tag &&
             names(c.headers[static_cast<std::uint32_t>(entry) - 1], uid, page);
    });
    if (!duplicate && free != bucket_ways) {
      bucket_entry(c, at.bucket, free).store(std::uint64_t(at.tag) << 32 | (frame + 1), memory_order_relaxed);
      settle(c.buckets[at.bucket * bucket_ways + free]);
    }
    lock.store(0, after_settling);
    return duplicate ? insert_result::duplicate : free != bucket_ways ? insert_result::inserted : insert_result::full;
  }
}

/// Takes the entry of a frame out that the calling thread owns (evicting or filling).
__device__ __forceinline__ void lane_remove(page_cache_ref const& c, std::uint32_t frame) {
  frame_header& h = c.headers[frame];
  page_location const at = locate(c, atomic_ref<std::uint64_t, scope::device>(h.uid).load(memory_order_relaxed),
                                  atomic_ref<std::uint64_t, scope::device>(h.page).load(memory_order_relaxed));
  std::uint64_t const own = std::uint64_t(at.tag) << 32 | (frame + 1);
  detail::lane_visit(c, at.bucket, at.home(), [&](unsigned way, std::uint64_t entry) {
    if (entry != own) return false;
    bucket_entry(c, at.bucket, way).store(0, memory_order_relaxed);
    return true;
  });
}

/// Throws out a ready, unpinned page of the bucket where a page belongs, as evict_from_bucket() does. Returns whether one went.
__device__ __forceinline__ bool lane_evict_from_bucket(page_cache_ref const& c, std::uint64_t uid, std::uint64_t page) {
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
