// The rest of a read, from the first batch on that is not all quick hits (quick_hits.hpp), and
// reads that cannot have quick hits. Out of line, since kernels that find their pages in the cache
// should keep their registers.
#pragma once

#include <gpufs/io/group.hpp>
#include <gpufs/io/read/pieces_ahead.hpp>
#include <gpufs/io/read/read_by_warps.hpp>
#include <gpufs/io/read/read_hits.hpp>
#include <gpufs/io/read/read_missing.hpp>
#include <gpufs/io/read/read_span.hpp>

#include <cstdint>

namespace gpufs::io {

using namespace base;

/// The result of a read: `bytes` delivered from its start. `error` ended it there, or is 0 if all
/// bytes were delivered or the file ended.
struct span_read {
  std::uint64_t bytes;
  std::int32_t error;
  bool outdated;  ///< the file's record must be looked at; the buffer's content does not count
};

/// What a read has delivered when its last barrier is over. All threads of the group call.
/// `stopped`: the same in all of them. `stop` counts in the first lanes of the warps, and `hits`,
/// the pages that were there, in the first thread.
template <class Group>
__device__ __forceinline__ span_read end_read(fs_ref const& fs, Group const& group,
                                              read_span const& span, bool stopped,
                                              read_stop const& stop, std::uint64_t hits) {
  if (group.thread_rank() == 0) handle::count(fs, span.fd, handle::file_counter::hits, hits);
  if (!stopped) return {span.end - span.begin, 0, false};
  std::uint64_t const key = group_ops<Group>::smallest(group, stop.key());
  return {read_stop::bytes(key), read_stop::error(key), false};
}

/// The outcome of a batch with missing pages.
struct batch_outcome {
  read_stop stop;  ///< as the calling warp knows it
  bool stopped;    ///< some warp has noted a stop; the same in all threads
};

/// Brings in the missing pages of a batch, and those ahead that the first warp has entered. All
/// threads of the group call, after any_missing(). `stop`: of the batch's hits. Ends with a
/// barrier: all bytes are in place.
template <class Group>
__device__ __forceinline__ batch_outcome bring_in_missing(fs_ref const* handle, Group const& group,
                                                          batch const& whole,
                                                          missing_pages const& found,
                                                          read_stop stop) {
  using ops = group_ops<Group>;
  typename ops::entries own;
  batch_read const done = read_missing(handle, group, whole, found, own);
  stop.note(done.stop);
  if (!ops::any(group, !stop.none() || done.ahead_since != 0)) return {stop, false};
  if (ops::any(group, done.ahead_since != 0))
    read_pieces_ahead(handle, group, whole, own, done.ahead_since);
  return {stop, ops::any(group, !stop.none())};
}

/// A batch, of which every warp has delivered the pages that it found.
struct batch_look {
  unsigned pages;
  hits_read found;  ///< by the calling warp
  bool left_over;   ///< pages are missing, or the read stops, or its file is outdated
};

/// How the next batch is shared out: `team` warps for each of `pages` pages.
struct batch_share {
  unsigned pages;
  unsigned team;
};

/// The batch that begins when `left` pages are left. Any thread calls.
__device__ __forceinline__ batch_share share_batch(read_span const& span, std::uint64_t left,
                                                   unsigned warps) {
  unsigned const team = team_size(span, left, warps);
  unsigned const most = team > 1 ? warps / team : source::batch_pages;
  return {static_cast<unsigned>(least<std::uint64_t>(left, most)), team};
}

/// Ends the look at a batch. `found`: by the calling warp. All threads of the group call. One
/// barrier is the whole cost.
template <class Group>
__device__ __forceinline__ batch_look end_look(Group const& group, unsigned pages,
                                               hits_read const& found) {
  bool const left_over = group_ops<Group>::any_missing(
      group, found.missing.todo != 0 || !found.stop.none() || found.outdated, found.missing);
  return {pages, found, left_over};
}

/// Delivers the cached pages of the next batch, from `page` on. All threads of the group call.
/// `checks`: says in `found` whether the file is outdated.
template <class Group>
__device__ __forceinline__ batch_look read_cached(fs_ref const* handle, Group const& group,
                                                  read_span const& span, std::uint64_t page,
                                                  bool checks) {
  using ops = group_ops<Group>;
  unsigned const warps = ops::warps(group);
  unsigned const warp = ops::warp(group);
  batch_share const share = share_batch(span, span.last_page() - page + 1, warps);
  hits_read found;
  if (warp < warps) {
    found = share.team > 1 ? read_hit_slice(handle, span, page, share.pages, share.team, warp)
                           : read_hits(handle, span, page, share.pages, warp, warps);
  }
  found.outdated = found.outdated && checks;
  return end_look(group, share.pages, found);
}

/// Reads the rest of a span, from a batch on that has been read as far as it is cached. `looked`:
/// that batch. As read_pages().
template <class Group>
__device__ __forceinline__ span_read read_rest(fs_ref const* handle, Group const& group,
                                               batch const& from, batch_look const& looked) {
  using ops = group_ops<Group>;
  read_span const& span = from.span;
  std::uint64_t const last = span.last_page();
  std::uint64_t hits = from.first - span.first_page();
  batch b = from;
  batch_look look = looked;
  batch_outcome done{};
  bool by_warps = true;         // until that has failed once
  std::uint64_t failed_to = 0;  // behind the pages of that try
  while (!done.stopped) {
    unsigned const many =
        by_warps ? to_share_out(handle, group, b, look.found.missing, last - b.first + 1) : 0;
    if (many != 0) {
      batch whole = b;
      whole.pages = many;
      std::uint64_t const since = device_clock_ns();
      by_warps = read_by_warps(handle, group, whole, since);
      if (by_warps) {
        b.first += many;
      } else {
        b.waits_since = since;  // its requests have had part of their time
        failed_to = b.first + many;
      }
    } else {
      // Part of a team may find a page that others miss. It is read again and counted then.
      if (ops::warp(group) == 0)
        hits += b.pages - count_lanes(ops::take_missing(look.found.missing).todo);
      done = bring_in_missing(handle, group, b, look.found.missing, look.found.stop);
      b.first += b.pages;
      b.waits_since = 0;  // the next batch has requested nothing yet
    }
    while (!done.stopped) {  // to the next batch of which a page is missing
      if (b.first > last) return end_read(*handle, group, span, false, done.stop, hits);
      look = read_cached(handle, group, span, b.first, false);
      b.pages = look.pages;
      if (look.left_over) break;
      hits += b.pages;
      b.first += b.pages;
      if (b.first >= failed_to) b.waits_since = 0;
    }
  }
  return end_read(*handle, group, span, true, done.stop, hits);
}

/// Reads the rest of a span within a page that one warp reads alone, from a batch on that it has
/// looked at. As read_rest(), without barriers that only several pages need.
template <class Group>
__device__ __forceinline__ span_read read_rest_of_page(fs_ref const* handle, Group const& group,
                                                       batch const& whole, batch_look const& look) {
  batch_outcome const done =
      bring_in_missing(handle, group, whole, look.found.missing, look.found.stop);
  return end_read(*handle, group, whole.span, done.stopped, done.stop,
                  look.found.missing.todo == 0 ? 1 : 0);
}

/// Whether one warp reads the whole span alone. If its page is in the cache, the other warps only
/// come to the barrier.
__device__ __forceinline__ bool reads_span_alone(read_span const& span) {
  return span.first_page() == span.last_page() && reads_alone(span, 1);
}

/// Goes on where a batch has left something over. As read_pages(). Kernels call this and
/// read_any_pages() directly: by far_call() they would keep more of their values in registers, but
/// all stages below would save theirs on the stack (docs/design/read.md).
template <class Group>
GPUFS_STAGE span_read read_left_over(fs_ref const* handle, Group const group, batch const from,
                                     batch_look const look) {
  using ops = group_ops<Group>;
  if (ops::any(group, look.found.outdated)) {
    ops::drop_missing(group);
    return {0, 0, true};
  }
  return reads_span_alone(from.span) ? read_rest_of_page(handle, group, from, look)
                                     : read_rest(handle, group, from, look);
}

/// read_pages() for spans of any kind. `whole`: its first page.
template <class Group>
GPUFS_STAGE span_read read_any_pages(fs_ref const* handle, Group const group, batch const whole,
                                     bool checks) {
  using ops = group_ops<Group>;
  read_span const& span = whole.span;
  std::uint64_t const first = span.first_page(), last = span.last_page();
  batch b = whole;
  if (reads_span_alone(span)) {
    hits_read found;
    if (ops::warp(group) == 0) found = read_hits(handle, span, first, 1, 0, 1);
    found.outdated = found.outdated && checks;
    batch_look const look = end_look(group, 1, found);
    if (look.left_over) return read_left_over(handle, group, b, look);
  } else {
    while (b.first <= last) {
      batch_look const look = read_cached(handle, group, span, b.first, checks && b.first == first);
      b.pages = look.pages;
      if (look.left_over) return read_left_over(handle, group, b, look);
      b.first += look.pages;
    }
  }
  return end_read(*handle, group, span, false, {}, last - first + 1);
}

}  // namespace gpufs::io
