// Look-ups for single lanes, as array elements need them under divergence. Entries, locks and rules
// are those of page_table.hpp. A lane reads a bucket from the page's home on: one way first, then
// four at a time.
#pragma once

#include <gpufs/cache/page_table.hpp>

#include <cstdint>

namespace gpufs::cache {

/// Pins the frame and checks whether it has the page. Any single thread calls. Returns the look-up,
/// or `absent` with no pin. Sets `passing` if the frame is being evicted.
__device__ __forceinline__ lookup lane_pin(handle::page_cache_ref const& c, std::uint32_t frame,
                                           std::uint64_t version, std::uint64_t page,
                                           bool& passing) {
  frame_header& h = c.headers[frame];
  phase const p = phase_of(pin(h));
  std::uint32_t const valid = valid_bytes(h);
  bool const ours = names(h, version, page);
  if (ours && (p == phase::ready || p == phase::filling)) {
    if (marks_hits(c.policy))
      atomic_ref<std::uint32_t, scope::device>(h.referenced).store(1, memory_order_relaxed);
    return {p == phase::ready ? lookup_result::hit : lookup_result::filling, frame, valid};
  }
  passing |= p == phase::evicting;
  unpin_read(h);
  return {lookup_result::absent, 0, 0};
}

/// Finds and pins a page as find_and_pin() does. Any single thread calls. At a table's usual load
/// the first look at its home finds the page.
__device__ __forceinline__ lookup lane_find_and_pin(handle::page_cache_ref const& c,
                                                    std::uint64_t version, std::uint64_t page) {
  page_location const at = locate(c, version, page);
  for (unsigned pause = 0;;) {
    bool passing = false;
    lookup found{lookup_result::absent, 0, 0};
    std::uint64_t const first = bucket_entry(c, at.bucket, at.home()).load(memory_order_relaxed);
    if (at.may_be(first))
      found = lane_pin(c, static_cast<std::uint32_t>(first) - 1, version, page, passing);
    if (found.result == lookup_result::absent) {
      lane_visit(c, at.bucket, at.home() + 1, [&](unsigned, std::uint64_t entry) {
        if (!at.may_be(entry)) return false;
        found = lane_pin(c, static_cast<std::uint32_t>(entry) - 1, version, page, passing);
        return found.result != lookup_result::absent;
      });
    }
    if (found.result != lookup_result::absent || !passing) return found;
    backoff(pause);  // the owner is about to remove the entry, and never waits meanwhile
  }
}

}  // namespace gpufs::cache
