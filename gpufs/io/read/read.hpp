// gread: shares pages out over the group's warps. A small page takes one warp, a large one a team.
#pragma once

#include <gpufs/io/open.hpp>
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
__device__ __forceinline__ span_read end_read(io_context<Group> const& io, read_span const& span,
                                              bool stopped, read_stop const& stop,
                                              std::uint64_t hits) {
  Group const& group = io.group();
  if (group.thread_rank() == 0) handle::count(io.fs(), span.fd, handle::file_counter::hits, hits);
  if (!stopped) return {span.end - span.begin, 0, false};
  std::uint64_t const key = group_ops<Group>::smallest(group, stop.key());
  return {read_stop::bytes(key), read_stop::error(key), false};
}

/// Ends the read of a batch's missing pages with a barrier: all bytes are in place. If the first
/// warp has entered pages ahead, also brings in these. All threads of the group call. Returns
/// whether the read must stop: some warp has noted where in `stop`.
template <class Group>
__device__ __forceinline__ bool end_missing(io_context<Group>& io, batch const& whole,
                                            std::uint64_t ahead_since, read_stop const& stop,
                                            source::fill& own) {
  using ops = typename io_context<Group>::ops;
  Group const& group = io.group();
  if (!ops::any(group, !stop.none() || ahead_since != 0)) return false;
  if (ops::any(group, ahead_since != 0))
    read_pieces_ahead(io.handle(), group, whole, own, ahead_since);
  return ops::any(group, !stop.none());
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
    return end_read(io, span, false, found.stop, 1);
  if (checks && ops::any(group, outdated)) {
    ops::drop_missing(group);
    return {0, 0, true};
  }
  read_stop stop = found.stop;
  io::batch const whole{span, page, 1, io.seat(), io.chunks()};
  source::fill own;
  io::batch_read const done = io::read_missing(io.handle(), group, whole, found.missing, own);
  stop.note(done.stop);
  bool const stopped = io::end_missing(io, whole, done.ahead_since, stop, own);
  return end_read(io, span, stopped, stop, found.missing.todo == 0 ? 1 : 0);
}

/// Brings the pages of a span into the cache and delivers their bytes. All threads of the group
/// call, and all get the result. The group has full warps, and the span is not empty. A group
/// barrier has come since the last use of the buffer. Ends with a group barrier. With `checks`, the
/// first batch also shows whether the file is outdated. All threads leave by the same path.
template <class Group>
__device__ __forceinline__ span_read read_pages(io_context<Group>& io, read_span const& span,
                                                bool checks = false) {
  using ops = typename io_context<Group>::ops;
  if (span.first_page() == span.last_page() && io::reads_alone(span, 1))
    return read_page(io, span, checks);
  Group const& group = io.group();
  unsigned const warps = ops::warps(group);
  unsigned const warp = ops::warp(group);
  std::uint64_t hits = 0;
  read_stop stop;
  bool stopped = false;
  for (std::uint64_t page = span.first_page(), last = span.last_page(); page <= last;) {
    std::uint64_t const left = last - page + 1;
    unsigned const team = io::team_size(span, left, warps);
    unsigned const most = team > 1 ? warps / team : source::batch_pages;
    unsigned const batch = static_cast<unsigned>(base::least<std::uint64_t>(left, most));
    // Hits first: every warp delivers the pages that it finds. If none is missing, one barrier is
    // the whole cost.
    io::hits_read found;
    if (warp < warps) {
      found = team > 1 ? io::read_hit_slice(io.handle(), span, page, batch, team, warp)
                       : io::read_hits(io.handle(), span, page, batch, warp, warps);
    }
    stop.note(found.stop);
    bool const outdated = checks && found.outdated && page == span.first_page();
    bool const left_over =
        ops::any_missing(group, found.missing.todo != 0 || !stop.none() || outdated, found.missing);
    if (!left_over) {
      hits += batch;
      page += batch;
      continue;
    }
    // Part of a team may find a page that others miss. It is read again and counted then.
    if (warp == 0) hits += batch - count_lanes(ops::take_missing(found.missing).todo);
    if (checks && page == span.first_page() && ops::any(group, outdated)) {
      ops::drop_missing(group);
      return {0, 0, true};
    }
    io::batch const whole{span, page, batch, io.seat(), io.chunks()};
    source::fill own;
    io::batch_read const done = io::read_missing(io.handle(), group, whole, found.missing, own);
    stop.note(done.stop);
    page += batch;
    stopped = io::end_missing(io, whole, done.ahead_since, stop, own);
    if (stopped) break;
  }

  return end_read(io, span, stopped, stop, hits);
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
