// gwrite: one warp makes a page ready, all warps copy, the first warp posts.
#pragma once

#include <gpufs/io/open.hpp>
#include <gpufs/io/read/read_span.hpp>
#include <gpufs/io/write/ready_pages.hpp>

#include <cerrno>
#include <cstddef>
#include <cstdint>

#include <sys/types.h>

namespace gpufs {

namespace io {

using namespace base;

/// Notes a batch's pages for all warps of a group. A block keeps them in its scratch, a tile in the
/// lanes of its one warp.
template <class Group>
struct batch_notes {
  write_page mine;
  __device__ void note(unsigned i, write_page const& page) {
    if (lane_id() == i) mine = page;
  }
  __device__ void clear(Group const&) { mine = {}; }
  __device__ write_page load() const { return mine; }
};

template <>
struct batch_notes<cooperative_groups::thread_block> {
  __device__ void note(unsigned i, write_page const& page) {
    if (lane_id() == 0) scratch().pages.written[i] = page;
  }
  __device__ void clear(cooperative_groups::thread_block const& g) {
    if (g.thread_rank() < warp_size)
      scratch().pages.written[g.thread_rank()].status = write_status::none;
  }
  __device__ write_page load() const { return scratch().pages.written[lane_id()]; }
};

/// Makes pages of a batch ready and notes them. Each warp of the group calls with its own `warp`;
/// pages are shared out over the warps. With `in_turn`, the first warp waits for the first page
/// that is left, and the others have nothing to do.
template <class Group>
__device__ __forceinline__ void ready_pages(io_context<Group>& io, write_span const& span,
                                            std::uint64_t first, std::uint32_t todo, bool in_turn,
                                            batch_notes<Group>& notes) {
  using ops = typename io_context<Group>::ops;
  unsigned const warps = ops::warps(io.group());
  unsigned const warp = ops::warp(io.group());
  if (in_turn) {
    unsigned const i = lowest_lane(todo);
    if (warp == 0) notes.note(i, ready_in_turn(io.handle(), span, io.seat(), first + i));
    return;
  }
  for (unsigned i = warp; i < source::batch_pages; i += warps) {
    if ((todo >> i & 1) != 0) notes.note(i, ready_page(io.handle(), span, io.seat(), first + i));
  }
}

/// Writes pages first .. first + batch - 1 of the span; `batch` is at most 32. All threads of the
/// group call. Returns the same stop in all lanes of a warp.
///
/// A round has three steps: every warp makes pages of its own ready, all warps copy, the first warp
/// posts. Pages that are not ready wait for the next round, when the group has no page and no
/// buffer. If a round made no page ready, the next one makes one page ready in turn. So groups with
/// pages wait for no other group's pages, frames or buffers, and every second round gets on. After
/// a page has failed, the rounds go on for the pages before it, and no page behind it is begun.
template <class Group>
__device__ __forceinline__ read_stop write_batch(io_context<Group>& io, write_span const& span,
                                                 std::uint64_t first, unsigned batch) {
  using ops = typename io_context<Group>::ops;
  Group const& group = io.group();
  unsigned const warps = ops::warps(group);
  unsigned const warp = ops::warp(group);
  bool const works = warp < warps;
  std::uint32_t todo = batch == warp_size ? all_lanes : (1u << batch) - 1;
  read_stop stop;
  batch_notes<Group> notes;
  bool in_turn = false;
  bool more = true;
  while (more) {
    notes.clear(group);
    ops::sync(group);  // also: the group's threads have filled `buf`
    if (works) ready_pages(io, span, first, todo, in_turn, notes);
    ops::sync(group);
    write_page mine;
    if (works) {
      mine = notes.load();
      std::uint32_t const ready = __ballot_sync(
          all_lanes, mine.status == write_status::ready || mine.status == write_status::filling);
      std::uint32_t const failed = __ballot_sync(all_lanes, mine.status == write_status::failed);
      todo &= ~(ready | failed);
      if (failed != 0) {
        unsigned const at = lowest_lane(failed);
        todo &= (1u << at) - 1;  // the result says that the pages before it were written
        std::uint64_t const page_begin = (first + at) << span.page_shift;
        stop.note(page_begin > span.begin ? page_begin - span.begin : 0,
                  warp_broadcast(mine.error, at));
      }
      if (ready != 0) copy_batch(io.handle(), span, first, ready, mine, warp, warps);
      in_turn = ready == 0;
    }
    more = ops::any(group, works && todo != 0);
    if (works && warp == 0) post_batch(io.handle(), span, first, mine);
  }
  return stop;
}

/// Bytes that a file can have. Offsets travel in 48 bits.
inline constexpr std::uint64_t longest_file = rpc::payload_mask + 1;
__device__ constexpr bool fits_in_file(std::uint64_t offset, std::uint64_t count) {
  return offset < longest_file && count <= longest_file - offset;
}

/// Reserves `count` bytes at the file's end. One thread calls. Returns their place, or longest_file
/// if they do not fit. Then nothing is reserved, unless other appends come at the same time.
__device__ __forceinline__ std::uint64_t reserve_at_end(fs_ref const& fs,
                                                        file::used_file const& file,
                                                        std::uint64_t count) {
  atomic_ref<std::uint64_t, scope::device> size(fs.writes.files[file.write_index - 1].size);
  if (!fits_in_file(size.load(memory_order_relaxed), count)) return longest_file;
  std::uint64_t const place = size.fetch_add(count, memory_order_relaxed);
  return fits_in_file(place, count) ? place : longest_file;
}

/// One try of the group's first thread to join a file's writers.
struct join_attempt {
  std::uint64_t offset = 0;
  file::join_result result = file::join_result::joined;
  bool late = false;  ///< look_again: the gate was closed for longer than rpc_timeout
};

/// Joins the file's writers and finds the offset. An append reserves its range here, and ignores
/// `offset`. All threads of the group call. Returns 0 and the offset, or -EBADF, -EFBIG, -EIO,
/// -ETIMEDOUT, or the error of an earlier write-back.
template <class Group>
__device__ __forceinline__ std::int32_t begin_write(io_context<Group>& io, std::int32_t fd,
                                                    std::uint64_t count, bool may_append,
                                                    std::uint64_t& offset) {
  fs_ref const& fs = io.fs();
  bool patient = true;
  for (;;) {
    if (std::int32_t const error = use_file(io, fd); error != 0) return error;
    file::used_file const& file = io.file();
    if ((file.flags & O_ACCMODE) == O_RDONLY || file.write_index == 0) return -EBADF;
    bool const appends = may_append && (file.flags & O_APPEND) != 0;
    if (!appends && !fits_in_file(offset, count)) return -EFBIG;
    join_attempt attempt;
    attempt.offset = offset;
    if (io.group().thread_rank() == 0) {
      std::int32_t const failed = file::earlier_write_error(fs, file);
      if (failed != 0 || !patient) {
        attempt.result = file::failed_join(failed != 0 ? failed : -ETIMEDOUT);
      } else if (!file::join_writers(fs, file)) {
        attempt.result = file::join_result::look_again;
        // The caller that closed the gate opens it within its own timeout, unless the host is slow
        // to cut the file.
        std::int32_t const waited = file::await_gate(fs, file::shared_of(fs, file));
        if (waited == -EIO) attempt.result = file::failed_join(waited);
        attempt.late = waited != 0;
      } else if (appends) {
        attempt.offset = reserve_at_end(fs, file, count);
        if (attempt.offset == longest_file) {
          file::leave_writers(fs, file);
          attempt.result = file::failed_join(-EFBIG);
        }
      }
    }
    attempt = io_context<Group>::ops::broadcast(io.group(), attempt);
    if (std::int32_t const error = file::join_error(attempt.result); error != 0) return error;
    if (attempt.result == file::join_result::joined) {
      offset = attempt.offset;
      return 0;
    }
    patient = !attempt.late;
  }
}

/// The body of gwrite and gmsync. With `may_append`, writes to the end of a file that was opened
/// with O_APPEND. If `only` is not 0, returns -ESTALE unless the file still has this version. All
/// threads of the group call.
template <class Group>
__device__ ssize_t write_at(io_context<Group>& io, int fd, void const* buf, std::size_t count,
                            std::int64_t offset, bool may_append, std::uint64_t only = 0) {
  using ops = typename io_context<Group>::ops;
  Group const& group = io.group();
  if (ops::warps(group) == 0) return -EINVAL;
  auto begin = static_cast<std::uint64_t>(offset);
  if (offset < 0) return -EINVAL;
  if (buf == nullptr && count != 0) return -EFAULT;
  if (std::int32_t const error = begin_write(io, fd, count, may_append, begin); error != 0)
    return error;
  file::used_file const& file = io.file();
  if (only != 0 && file.version != only) {
    if (group.thread_rank() == 0) file::leave_writers(io.fs(), file);
    return -ESTALE;
  }
  write_span const span{static_cast<std::byte const*>(buf),
                        begin,
                        begin + count,
                        file.version,
                        file.fd,
                        file.write_index,
                        io.fs().cache.page_shift,
                        (file.flags & rpc::open_write_once) != 0};
  read_stop stop;
  bool stopped = false;
  if (count != 0) {
    for (std::uint64_t page = begin >> span.page_shift, last = (span.end - 1) >> span.page_shift;
         page <= last && !stopped;) {
      std::uint64_t const left = last - page + 1;
      unsigned const batch = static_cast<unsigned>(least<std::uint64_t>(left, warp_size));
      stop.note(write_batch(io, span, page, batch));
      page += batch;
      stopped = ops::any(group, !stop.none());
    }
  }
  std::uint64_t bytes = count;
  std::int32_t error = 0;
  if (stopped) {
    std::uint64_t const key = ops::smallest(group, stop.key());
    bytes = read_stop::bytes(key);
    error = read_stop::error(key);
  }
  ops::sync(group);  // all pages are posted
  if (group.thread_rank() == 0) file::leave_writers(io.fs(), file);
  return bytes != 0 || error == 0 ? static_cast<ssize_t>(bytes) : error;
}

}  // namespace io

template <class Group>
__device__ ssize_t gwrite(io_context<Group>& io, int fd, void const* buf, std::size_t count,
                          std::int64_t offset) {
  return io::write_at(io, fd, buf, count, offset, true);
}

}  // namespace gpufs
