// gread: shares pages out over the group's warps. A small page takes one warp, a large one a team.
#pragma once

#include <gpufs/io/open.hpp>
#include <gpufs/io/read/quick_hits.hpp>
#include <gpufs/io/read/read_rest.hpp>
#include <gpufs/io/read/read_span.hpp>

#include <cerrno>
#include <cstddef>
#include <cstdint>

#include <sys/types.h>

namespace gpufs {

namespace io {

/// Notes where a read ended, so that the prefetcher sees whether the next one goes on there. One
/// thread of the group calls. Meanwhile the first thread may note in the same record which bytes
/// the group has brought in; neither looks at the other's fields.
template <class Group>
__device__ __forceinline__ void note_read(io_context<Group>& io, std::uint64_t version,
                                          std::uint64_t end) {
  if (!io.prefetching()) return;
  prefetch::stream& reads = io.fs().prefetch.states[io.seat()].reads;
  reads.version = version;
  reads.next = end;
}

/// Brings the pages of a span into the cache and delivers their bytes. All threads of the group
/// call, and all get the result. The group has full warps, and the span is not empty. A group
/// barrier has come since the last use of the buffer. Ends with a group barrier. With `checks`, the
/// first batch also shows whether the file is outdated. All threads leave by the same path.
template <class Group>
__device__ __forceinline__ span_read read_pages(io_context<Group>& io, read_span const& span,
                                                bool checks = false) {
  using ops = typename io_context<Group>::ops;
  Group const& group = io.group();
  std::uint64_t const first = span.first_page(), last = span.last_page();
  auto const batch_at = [&](std::uint64_t page, unsigned pages) {
    return io::batch{span, page, pages, io.seat(), io.chunks()};
  };
  if (!io::is_quick(span))
    return io::read_any_pages<Group>(io.handle(), group, batch_at(first, 1), checks);
  bool const alone = io::reads_span_alone(span);
  unsigned const warps = alone ? 1 : ops::warps(group);
  unsigned const warp = ops::warp(group);
  for (std::uint64_t page = first; page <= last;) {
    io::batch_share const share =
        alone ? io::batch_share{1, 1} : io::share_batch(span, last - page + 1, warps);
    io::hits_read found;
    if (warp < warps)
      found = io::read_quick_hits(io.fs(), span, io::quick_batch(span, page, share.pages),
                                  share.team, warp, warps);
    found.outdated = found.outdated && checks && page == first;
    io::batch_look const look = io::end_look(group, share.pages, found);
    if (look.left_over)
      return io::read_left_over<Group>(io.handle(), group, batch_at(page, share.pages), look);
    page += share.pages;
  }
  if (ops::keeps_count(group))
    handle::count(io.fs(), span.fd, handle::file_counter::hits, last - first + 1);
  return {span.end - span.begin, 0, false};
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
    if (ops::keeps_count(io.group())) {
      handle::count(io.fs(), span.fd, handle::file_counter::bytes_delivered, done.bytes);
      io::note_read(io, span.version, begin + done.bytes);
    }
    return done.bytes != 0 ? static_cast<ssize_t>(done.bytes) : done.error;
  }
}

}  // namespace gpufs
