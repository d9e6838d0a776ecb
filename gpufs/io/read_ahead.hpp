// Where gread meets the prefetcher: what the group misses is gathered, and its first warp sees to the chunks.
#pragma once

#include <gpufs/io/io_context.hpp>
#include <gpufs/io/read_span.hpp>
#include <prefetcher/advised.hpp>
#include <prefetcher/readahead.hpp>

#include <cstdint>

namespace gpufs::detail {

/// Has chunks for the absent pages of a batch, and for what follows, requested. All lanes of the group's first warp call.
GPUFS_STAGE inline void plan_chunks(fs_ref const* handle, prefetch::readahead_state* state, read_span const span,
                                    std::uint64_t first, unsigned batch, std::uint32_t absent) {
  fs_ref const& fs = *handle;
  prefetch::readahead chunks(fs, state);
  std::uint64_t const begin = first << span.page_shift;
  std::uint64_t const end = (first + batch) << span.page_shift;
  std::uint64_t const from = span.begin > begin ? span.begin : begin;
  advice const advised = prefetch::current_advice(fs, state, span.fd);
  // Once its first batch is through, a read goes on where it stopped.
  prefetch::stream const reads = first == span.first_page() ? chunks.reads() : prefetch::stream{span.uid, from, 0};
  bool const sequential = prefetch::is_sequential(reads, span.uid, from, span.page_bytes(), advised);
  std::uint32_t callers = 0;
  if (lane_id() == 0) callers = atomic_ref<std::uint32_t, scope::device>(*fs.claimed_slots).load(memory_order_relaxed);
  callers = warp_broadcast(callers);
  prefetch::window_rule const rule{
      fs.prefetch.automatic || advised == advice::random,  // then requests are as long as the read
      fs.prefetch.depth, prefetch::window_limit(callers, prefetch::chunks_ahead_together, prefetch::chunks_per_context - 2),
      advised == advice::sequential};
  chunks.plan({span.fd, span.uid, span.size, begin, end < span.size ? end : span.size, absent, span.page_shift, sequential},
              rule);
}

/// Gathers the absent pages of a batch and sees to the chunks for them. All threads of the group call; after it every warp may look for
/// its pages in the chunks.
template <class Group>
__device__ __forceinline__ void read_ahead(io_context<Group>& io, read_span const& span, std::uint64_t first, unsigned batch,
                                           std::uint32_t absent) {
  using ops = typename io_context<Group>::ops;
  absent = ops::gather(io.group(), gathering::absent, absent);
  if (absent == 0) return;
  if (ops::warp(io.group()) == 0) plan_chunks(io.fs().self, io.chunks(), span, first, batch, absent);
  ops::sync(io.group());
  ops::gathered(io.group(), gathering::absent);
}

}  // namespace gpufs::detail
