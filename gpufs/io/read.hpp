// gread: pages shared out over the group's warps; small ones a warp each, large ones a team of
// warps each.
#pragma once

#include <gpufs/io/open.hpp>
#include <gpufs/io/read_hits.hpp>
#include <gpufs/io/read_missing.hpp>
#include <gpufs/io/read_span.hpp>

#include <cerrno>
#include <cstddef>
#include <cstdint>

#include <sys/types.h>

namespace gpufs {

namespace detail {

/// What came of a read: `bytes` of it from its start, then (if not all) the error that ended it, or
/// 0 at the end of the file.
struct span_read {
  std::uint64_t bytes;
  std::int32_t error;
};

/// Remembers where a read ended, so that the prefetcher sees whether the next one goes on there.
/// One thread of the group calls.
template <class Group>
__device__ __forceinline__ void note_read(io_context<Group>& io, std::uint64_t uid,
                                          std::uint64_t end) {
  if (!io.prefetching()) return;
  prefetch::stream& reads = io.fs().prefetch.states[io.slot()].reads;
  reads.uid = uid;
  reads.next = end;
}

/// Brings the pages of a span, which is not empty, into the cache and delivers their bytes. All
/// threads of the group, which has full warps, call; all get the result. Starts with a barrier of
/// the group and ends with one.
template <class Group>
__device__ __forceinline__ span_read read_pages(io_context<Group>& io, read_span const& span) {
  using ops = typename io_context<Group>::ops;
  Group const& group = io.group();
  unsigned const warps = ops::warps(group);

  ops::sync(group);  // the group is done with what the buffer held
  unsigned const warp = ops::warp(group);
  read_stop stop;
  bool stopped = false;
  for (std::uint64_t page = span.first_page(), last = span.last_page(); page <= last;) {
    std::uint64_t const left = last - page + 1;
    unsigned const team = detail::team_size(span, left, warps);
    unsigned const most = team > 1 ? warps / team : batch_pages;
    unsigned const batch = left < most ? static_cast<unsigned>(left) : most;
    // First what is there: every warp delivers what it finds, and if nothing is left the one
    // barrier is all that hits cost.
    detail::hits_read found;
    if (warp < warps) {
      found = team > 1 ? detail::read_hit_slice(io.fs().self, span, page, batch, team, warp)
                       : detail::read_hits(io.fs().self, span, page, batch, warp, warps);
    }
    stop.note(found.stop);
    bool const left_over =
        ops::any_missing(group, found.missing.todo != 0 || !stop.none(), found.missing);
    // A page that some of its team found, and others did not, is read again and counted then.
    if (found.leads_hit && lane_id() == 0 &&
        !(left_over && ops::is_missing(found.missing, warp / team))) {
      gpufs::count(io.fs(), counter::hits);
    }
    if (!left_over) {
      page += batch;
      continue;
    }
    stop.note(detail::read_missing(io, span, page, batch, found.missing));
    page += batch;
    stopped = ops::any(
        group, !stop.none());  // the barrier also ends the batch: all its bytes are in place
    if (stopped) break;
  }

  if (!stopped) return {span.end - span.begin, 0};
  std::uint64_t const key = ops::smallest(group, stop.key());
  return {read_stop::bytes(key), read_stop::error(key)};
}

}  // namespace detail

template <class Group>
__device__ __forceinline__ ssize_t gread(io_context<Group>& io, int fd, void* buf,
                                         std::size_t count, std::int64_t offset) {
  using ops = typename io_context<Group>::ops;
  if (ops::warps(io.group()) == 0) return -EINVAL;
  if (std::int32_t const error = detail::use_file(io, fd); error != 0) return error;
  if (offset < 0) return -EINVAL;
  used_file const& file = io.file();
  if ((file.flags & O_ACCMODE) == O_WRONLY) return -EBADF;
  auto const begin = static_cast<std::uint64_t>(offset);
  if (count == 0 || begin >= file.size) return 0;
  if (buf == nullptr) return -EFAULT;
  std::uint64_t const end = count < file.size - begin ? begin + count : file.size;
  read_span const span{
      static_cast<std::byte*>(buf), begin,          end, file.uid, file.size, file.fd,
      io.fs().cache.page_shift,     file.place != 0};
  detail::span_read const done = detail::read_pages(io, span);
  if (io.group().thread_rank() == 0) {
    gpufs::count(io.fs(), counter::bytes_delivered, done.bytes);
    detail::note_read(io, span.uid, begin + done.bytes);
  }
  return done.bytes != 0 ? static_cast<ssize_t>(done.bytes) : done.error;
}

}  // namespace gpufs
