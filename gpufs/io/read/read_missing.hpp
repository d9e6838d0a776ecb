// The slow half of gread: pages of a batch that the hit path did not find ready.
#pragma once

#include <gpufs/io/io_context.hpp>
#include <gpufs/io/read/begin_batch.hpp>
#include <gpufs/io/read/end_batch.hpp>
#include <gpufs/io/read/move_pages.hpp>
#include <gpufs/io/read/pieces_ahead.hpp>
#include <gpufs/io/read/read_one.hpp>

#include <cstdint>

namespace gpufs::io {

/// Whether one warp reads the pages alone: a single page that is no longer than a slice. Other
/// warps could not help, and barriers with them take longer than the pull.
__device__ __forceinline__ bool reads_alone(read_span const& span, unsigned pages) {
  return pages == 1 && span.page_bytes() <= prefetch::longest_page_alone;
}

/// Reads the missing pages of a batch. All threads of the group call, after any_missing(). What it
/// returns counts in the first warp only. `own`: where a tile's entries are, also those of pages
/// ahead.
///
/// The first warp manages all pages, a lane each: frames, page table, requests, answers. With one
/// such warp the group polls host memory once, and its warps do not compete for frames and locks.
/// Then all warps pull. Before it pulls, the first warp gives back the chunks behind the batch and
/// requests the next ones. Then it publishes.
///
/// Now the group owes no page. Only now it waits for pages that others bring in, so waits cannot
/// form a circle. Pages that found no frame or channel get another round. The group then has no
/// page pinned, so it never waits for a frame while it pins one.
template <class Group>
__device__ __forceinline__ batch_read read_missing(fs_ref const* handle, Group const& group,
                                                   batch const& whole, missing_pages const& found,
                                                   typename group_ops<Group>::entries& own) {
  using ops = group_ops<Group>;
  bool const chief = ops::warp(group) == 0;
  bool const works = ops::warp(group) < ops::warps(group);
  missing_pages missing;
  if (chief) missing = ops::take_missing(found);
  if (reads_alone(whole.span, whole.pages)) {
    if (!chief) return {};
    ops::forget_missing(group);
    return read_one_missing(handle, whole, missing, ops::home(own));
  }
  source::fill* const entry = ops::home(own);
  batch b = whole;
  read_stop stop;
  bool fetched = false;
  for (bool first_round = true;; first_round = false) {
    batch_step step;
    if (chief) step = begin_batch(handle, b, missing.todo, missing.absent, entry);
    if (step.chunk_failed != 0) b.chunks = nullptr;  // requests of their own show the error
    b.waits_since = 0;                               // and their waits begin anew
    fetched = fetched || step.fetching != 0;
    step = ops::share(group, step);
    if (chief && first_round && step.ahead != 0)
      look_ahead(handle, whole, entry, step.registered == 0);
    if (works) move_pages(handle, group, whole.span, whole.first, step.moving, own);
    ops::sync(group);
    if (chief) stop.note(end_batch(handle, b, entry));
    if (step.waiting != 0) {
      batch_step others;
      if (chief) others = await_others(handle, b, entry);
      others = ops::share(group, others);
      if (works) move_pages(handle, group, whole.span, whole.first, others.moving, own);
      ops::sync(group);
      if (chief) stop.note(end_batch(handle, b, entry));
      step.again |= others.again;
    }
    if (step.again == 0) {
      bool const ahead = chief && fetched && stop.none() && has_pieces_ahead(whole);
      return {stop, ahead ? enter_ahead(handle, whole, entry) : 0};
    }
    missing = {step.again, 0};
  }
}

}  // namespace gpufs::io
