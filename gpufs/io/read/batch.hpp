// A batch of pages, and its share of the prefetcher.
#pragma once

#include <gpufs/base/warp.hpp>
#include <gpufs/io/read/read_span.hpp>
#include <gpufs/source/fill.hpp>

#include <prefetcher/advised.hpp>
#include <prefetcher/readahead.hpp>

#include <cstdint>

namespace gpufs::io {

using namespace base;

/// A batch of pages from `first` on, which a group's first warp manages.
struct batch {
  read_span span;
  std::uint64_t first;
  unsigned pages;
  std::int32_t seat;                  ///< the context's, or -1
  prefetch::readahead_state* chunks;  ///< the seat's, or null for no prefetching
  /// when the wait for answers began, of device_clock_ns(); 0: it begins now
  std::uint64_t waits_since = 0;
};

/// The batch as the prefetcher sees it.
__device__ __forceinline__ prefetch::wanted as_wanted(batch const& b) {
  std::uint64_t const begin = b.first << b.span.page_shift;
  std::uint64_t const end = (b.first + b.pages) << b.span.page_shift;
  std::uint64_t const read_end = (b.span.last_page() + 1) << b.span.page_shift;
  return {b.span.fd,
          b.span.version,
          b.span.size,
          begin,
          least(end, b.span.size),
          b.span.begin,
          least(read_end, b.span.size),
          b.span.page_shift,
          b.span.zero_filled};
}

/// Has the prefetcher prepare chunks for the absent pages. All lanes of the first warp call.
__device__ __forceinline__ void cover(fs_ref const& fs, batch const& b, prefetch::readahead& chunks,
                                      std::uint32_t absent) {
  // These loads are under way together with those of current_advice().
  std::uint32_t callers = 0;
  if (lane_id() == 0)
    callers =
        atomic_ref<std::uint32_t, scope::device>(*fs.seats.claimed).load(memory_order_relaxed);
  prefetch::stream const known = chunks.reads();
  advice const advised = prefetch::current_advice(fs, b.chunks, b.span.fd);
  callers = warp_broadcast(callers);
  std::uint64_t const begin = b.first << b.span.page_shift;
  std::uint64_t const from = most(b.span.begin, begin);
  // After the first batch of a read, the read goes on where that batch stopped.
  prefetch::stream const reads =
      b.first == b.span.first_page() ? known : prefetch::stream{b.span.version, from, 0};
  prefetch::depth_rule const rule{// RANDOM: then requests are as long as the read
                                  fs.prefetch.automatic || advised == advice::random,
                                  fs.prefetch.depth,
                                  prefetch::depth_limit(callers, prefetch::chunks_ahead_together,
                                                        prefetch::chunks_per_context - 2),
                                  advised == advice::sequential,
                                  advised == advice::random,
                                  callers};
  // A read's end is noted behind its last batch. So each batch can tell how the read began.
  auto const kind_at = [&](std::uint64_t at) {
    return prefetch::kind_of(known, b.span.version, at, b.span.page_bytes(), advised);
  };
  chunks.cover(as_wanted(b), absent,
               prefetch::kind_of(reads, b.span.version, from, b.span.page_bytes(), advised), rule,
               {b.span.begin, b.span.end - b.span.begin},
               kind_at(b.span.begin) == prefetch::read_kind::jump);
}

/// Gives back chunks behind the batch and of other files. If it `requests`, also requests the
/// chunks that the readahead depth asks for and that are missing. A group that brings in no page of
/// the batch requests none: the group that does reads ahead. All lanes of the first warp call,
/// before they move bytes; other warps move bytes meanwhile. `entry` has the lane's page.
GPUFS_LIBRARY_STAGE void look_ahead(fs_ref const* __restrict__ handle, batch const b,
                                    source::fill const* entry, bool requests) {
  prefetch::readahead chunks(*handle, b.chunks);
  bool const fetches =
      __ballot_sync(all_lanes, entry->status == source::page_status::fetching) != 0;
  bool const waits = __ballot_sync(all_lanes, entry->status == source::page_status::waiting) != 0;
  chunks.look_ahead(as_wanted(b), requests && fetches, waits);
}

}  // namespace gpufs::io
