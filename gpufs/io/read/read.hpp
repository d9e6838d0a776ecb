// gread: shares pages out over the group's warps. A small page takes one warp, a large one a team.
#pragma once

#include <gpufs/io/open.hpp>
#include <gpufs/io/read/read_by_warps.hpp>
#include <gpufs/io/read/read_hits.hpp>
#include <gpufs/io/read/read_missing.hpp>
#include <gpufs/io/read/read_span.hpp>

#include <cerrno>
#include <cstddef>
#include <cstdint>

#include <sys/types.h>

namespace gpufs {

namespace io {

/// The result of a read: `bytes` delivered from its start. `error` ended it there, or is 0 if all
/// bytes were delivered or the file ended.
struct span_read {
  std::uint64_t bytes;
  std::int32_t error;
  bool outdated;  ///< the file's record must be looked at; the buffer's content does not count
};

/// Notes where a read ended, so that the prefetcher sees whether the next one goes on there. One
/// thread of the group calls.
template <class Group>
__device__ __forceinline__ void note_read(io_context<Group>& io, std::uint64_t version,
                                          std::uint64_t end) {
  if (!io.prefetching()) return;
  prefetch::stream& reads = io.fs().prefetch.states[io.seat()].reads;
  reads.version = version;
  reads.next = end;
}

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

/// Delivers the cached pages of the next batch, from `page` on. All threads of the group call. One
/// barrier is the whole cost. `checks`: says in `found` whether the file is outdated.
template <class Group>
__device__ __forceinline__ batch_look read_cached(fs_ref const* handle, Group const& group,
                                                  read_span const& span, std::uint64_t page,
                                                  bool checks) {
  using ops = group_ops<Group>;
  unsigned const warps = ops::warps(group);
  unsigned const warp = ops::warp(group);
  std::uint64_t const left = span.last_page() - page + 1;
  unsigned const team = team_size(span, left, warps);
  unsigned const most = team > 1 ? warps / team : source::batch_pages;
  batch_look look{static_cast<unsigned>(least<std::uint64_t>(left, most)), {}, false};
  if (warp < warps) {
    look.found = team > 1 ? read_hit_slice(handle, span, page, look.pages, team, warp)
                          : read_hits(handle, span, page, look.pages, warp, warps);
  }
  hits_read& found = look.found;
  found.outdated = found.outdated && checks;
  look.left_over = ops::any_missing(
      group, found.missing.todo != 0 || !found.stop.none() || found.outdated, found.missing);
  return look;
}

/// Reads the rest of a span, from a batch on that has been read as far as it is cached. `looked`:
/// that batch. As read_pages(). A call of its own, so that the loop over hits keeps its registers.
template <class Group>
GPUFS_STAGE span_read read_rest(fs_ref const* handle, Group const& group, batch const from,
                                batch_look const looked) {
  using ops = group_ops<Group>;
  read_span const& span = from.span;
  std::uint64_t const last = span.last_page();
  std::uint64_t hits = from.first - span.first_page();
  if (ops::any(group, looked.found.outdated)) {
    ops::drop_missing(group);
    return {0, 0, true};
  }
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

/// As read_pages() for a span within a page that one warp reads alone. If the page is in the cache,
/// the other warps only come to the barrier.
template <class Group>
__device__ __forceinline__ span_read read_page(io_context<Group>& io, read_span const& span,
                                               bool checks) {
  using ops = typename io_context<Group>::ops;
  Group const& group = io.group();
  std::uint64_t const page = span.first_page();
  io::hits_read found;
  if (ops::warp(group) == 0) found = io::read_hits(io.handle(), span, page, 1, 0, 1);
  bool const outdated = checks && found.outdated;
  if (!ops::any_missing(group, found.missing.todo != 0 || !found.stop.none() || outdated,
                        found.missing))
    return end_read(io.fs(), group, span, false, found.stop, 1);
  if (checks && ops::any(group, outdated)) {
    ops::drop_missing(group);
    return {0, 0, true};
  }
  io::batch const whole{span, page, 1, io.seat(), io.chunks()};
  io::batch_outcome const done =
      io::bring_in_missing(io.handle(), group, whole, found.missing, found.stop);
  return end_read(io.fs(), group, span, done.stopped, done.stop, found.missing.todo == 0 ? 1 : 0);
}

/// Brings the pages of a span into the cache and delivers their bytes. All threads of the group
/// call, and all get the result. The group has full warps, and the span is not empty. A group
/// barrier has come since the last use of the buffer. Ends with a group barrier. With `checks`, the
/// first batch also shows whether the file is outdated. All threads leave by the same path.
template <class Group>
__device__ __forceinline__ span_read read_pages(io_context<Group>& io, read_span const& span,
                                                bool checks = false) {
  if (span.first_page() == span.last_page() && io::reads_alone(span, 1))
    return read_page(io, span, checks);
  Group const& group = io.group();
  std::uint64_t const first = span.first_page(), last = span.last_page();
  for (std::uint64_t page = first; page <= last;) {
    io::batch_look const look =
        io::read_cached(io.handle(), group, span, page, checks && page == first);
    if (look.left_over)
      return io::read_rest(io.handle(), group, {span, page, look.pages, io.seat(), io.chunks()},
                           look);
    page += look.pages;
  }
  return io::end_read(io.fs(), group, span, false, {}, last - first + 1);
}

}  // namespace io

template <class Group>
__device__ __forceinline__ ssize_t gread(io_context<Group>& io, int fd, void* buf,
                                         std::size_t count, std::int64_t offset) {
  using ops = typename io_context<Group>::ops;
  if (ops::warps(io.group()) == 0) return -EINVAL;
  file::used_file const& file = io.file();
  // Usually the group knows the file. It may be outdated; then the first look-ups show it.
  bool looks = !io::is_known(file, fd);
  // The group is done with the buffer's former content. look_at_file() has a barrier, too.
  if (!looks) ops::sync(io.group());
  for (;; looks = true) {
    if (looks) {
      if (std::int32_t const error = io::look_at_file(io, fd); error != 0) return error;
    }
    if (offset < 0) return -EINVAL;
    if ((file.flags & O_ACCMODE) == O_WRONLY) return -EBADF;
    auto const begin = static_cast<std::uint64_t>(offset);
    if (count == 0) return 0;
    if (begin >= file.size) {
      if (looks) return 0;
      continue;  // the file may be longer now
    }
    if (buf == nullptr) return -EFAULT;
    std::uint64_t const end = begin + base::least(count, file.size - begin);
    io::read_span const span{static_cast<std::byte*>(buf),
                             begin,
                             end,
                             file.version,
                             file.size,
                             file.fd,
                             io.fs().cache.page_shift,
                             file.write_index != 0,
                             file.changes};
    io::span_read const done = io::read_pages(io, span, !looks);
    if (done.outdated) continue;
    if (io.group().thread_rank() == 0) {
      handle::count(io.fs(), span.fd, handle::file_counter::bytes_delivered, done.bytes);
      io::note_read(io, span.version, begin + done.bytes);
    }
    return done.bytes != 0 ? static_cast<ssize_t>(done.bytes) : done.error;
  }
}

}  // namespace gpufs
