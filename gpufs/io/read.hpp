// gread: pages shared out over the group's warps; small ones a warp each, large ones a team of warps each.
#pragma once

#include <gpufs/io/open.hpp>
#include <gpufs/io/read_ahead.hpp>
#include <gpufs/io/read_span.hpp>
#include <gpufs/io/read_team.hpp>
#include <gpufs/io/read_warp.hpp>

#include <cerrno>
#include <cstddef>
#include <cstdint>

#include <sys/types.h>

namespace gpufs {

template <class Group>
__device__ __forceinline__ ssize_t gread(io_context<Group>& io, int fd, void* buf, std::size_t count, std::int64_t offset) {
  using ops = typename io_context<Group>::ops;
  Group const& group = io.group();
  unsigned const warps = ops::warps(group);
  if (warps == 0) return -EINVAL;
  if (std::int32_t const error = detail::use_file(io, fd); error != 0) return error;
  if (offset < 0) return -EINVAL;
  used_file const& file = io.file();
  if ((file.flags & O_ACCMODE) == O_WRONLY) return -EBADF;
  auto const begin = static_cast<std::uint64_t>(offset);
  if (count == 0 || begin >= file.size) return 0;
  std::uint64_t const end = count < file.size - begin ? begin + count : file.size;
  read_span const span{static_cast<std::byte*>(buf), begin,          end, file.uid, file.size, file.fd,
                       io.fs().cache.page_shift,     file.place != 0};

  ops::sync(group);  // the group is done with what the buffer held
  unsigned const warp = ops::warp(group);
  read_stop stop;
  bool stopped = false;
  for (std::uint64_t page = span.first_page(), last = span.last_page(); page <= last;) {
    std::uint64_t const left = last - page + 1;
    unsigned const team = detail::team_size(span, left, warps);
    unsigned const most = team > 1 ? warps / team : detail::warp_batch;
    unsigned const batch = left < most ? static_cast<unsigned>(left) : most;
    std::uint32_t mine = warp < warps && team == 1 ? detail::own_pages(batch, warp, warps) : 0;
    // First what is there: every warp delivers what it finds, and if nothing is left the one barrier is all that hits cost.
    std::uint32_t absent = 0;
    bool missed = false;
    bool leads_hit = false;
    if (team > 1) {
      detail::slice_read const slice = detail::read_hit_slice(io.fs().self, span, page, batch, team, warp);
      missed = slice.missed;
      absent = slice.absent;
      leads_hit = slice.hit;
      stop.note(slice.stop);
    } else if (mine != 0) {
      detail::hits_read const hits = detail::read_hits(io.fs().self, span, page, mine);
      mine = hits.left;
      missed = mine != 0;
      absent = hits.absent;
      stop.note(hits.stop);
    }
    if (!ops::any(group, missed || !stop.none())) {
      // Otherwise the teams go through the batch again, and count it then.
      if (leads_hit && lane_id() == 0) gpufs::count(io.fs(), counter::hits);
      page += batch;
      continue;
    }
    if (io.prefetching()) detail::read_ahead(io, span, page, batch, absent);
    if (team > 1) {
      if constexpr (is_block<Group>) {
        stop.note(detail::read_by_teams(io.fs().self, io.slot(), io.chunks(), span, page, batch, team, warp));
      }
    } else {
      stop.note(detail::read_misses(io.fs().self, group, io.slot(), io.chunks(), span, page, mine));
    }
    page += batch;
    stopped = ops::any(group, !stop.none());  // the barrier also ends the batch: all its bytes are in place
    if (stopped) break;
  }

  std::uint64_t bytes = end - begin;
  std::int32_t error = 0;
  if (stopped) {
    std::uint64_t const key = ops::smallest(group, stop.key());
    bytes = read_stop::bytes(key);
    error = read_stop::error(key);
  }
  if (group.thread_rank() == 0) {
    gpufs::count(io.fs(), counter::bytes_delivered, bytes);
    if (io.prefetching()) {
      prefetch::stream& reads = io.fs().prefetch.states[io.slot()].reads;
      reads.uid = span.uid;
      reads.next = begin + bytes;
    }
  }
  return bytes != 0 ? static_cast<ssize_t>(bytes) : error;
}

}  // namespace gpufs
