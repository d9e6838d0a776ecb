// The slow half of gread: pages of a batch that are not in the cache, or were not a moment ago.
#pragma once

#include <gpufs/io/begin_batch.hpp>
#include <gpufs/io/end_batch.hpp>
#include <gpufs/io/io_context.hpp>
#include <gpufs/io/move_pages.hpp>

#include <cstdint>

namespace gpufs::detail {

/// Reads the missing pages of a batch. All threads of the group call, behind any_missing(). What
/// the read must stop for is returned in the first warp.
///
/// The first warp manages: it gets frames, enters the pages, requests them and waits for the
/// answers, for all pages at once, a lane each; one warp so that the host's memory is polled once
/// per group, and frames and locks are not fought over by warps of one block. Then all warps pull,
/// while the first one gives back the chunks that lie behind and has the next ones requested. Then
/// the first warp publishes. Only then, when the group owes nobody a page, it waits for pages that
/// others are bringing in: so waits cannot form a circle. Pages that found no frame or channel have
/// another round: the group then holds none, so nobody waits for a frame while holding one.
template <class Group>
__device__ __forceinline__ read_stop read_missing(io_context<Group>& io, read_span const& span,
                                                  std::uint64_t first, unsigned pages,
                                                  missing_pages const& found) {
  using ops = group_ops<Group>;
  Group const& group = io.group();
  fs_ref const* const handle = io.fs().self;
  bool const chief = ops::warp(group) == 0;
  bool const works = ops::warp(group) < ops::warps(group);
  page_entry own;
  page_entry* const entry = ops::home(own);
  batch const whole{span, first, pages, io.slot(), io.chunks()};
  batch b = whole;
  missing_pages missing;
  if (chief) missing = ops::take_missing(found);
  read_stop stop;
  for (bool first_round = true;; first_round = false) {
    batch_step step;
    if (chief) step = begin_batch(handle, b, missing.todo, missing.absent, entry);
    if (step.chunk_failed != 0)
      b.chunks = nullptr;  // what is wrong there, requests of the pages' own tell
    step = ops::share(group, step);
    // Where windows are, there is nothing to be had ahead of time.
    if (chief && first_round && whole.chunks != nullptr)
      look_ahead(handle, whole, step.mapped == 0);
    if (works) move_pages(handle, group, span, first, step.moving, own);
    ops::sync(group);
    if (chief) stop.note(end_batch(handle, b, entry));
    if (step.waiting != 0) {
      batch_step others;
      if (chief) others = await_others(handle, b, entry);
      others = ops::share(group, others);
      if (works) move_pages(handle, group, span, first, others.moving, own);
      ops::sync(group);
      if (chief) stop.note(end_batch(handle, b, entry));
      step.again |= others.again;
    }
    if (step.again == 0) return stop;
    missing = {step.again, 0};
  }
}

}  // namespace gpufs::detail
