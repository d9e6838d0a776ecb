// gfadvise: sends advice about a whole file to the host, and brings pages in or removes them.
#pragma once

#include <gpufs/advice.hpp>
#include <gpufs/dirty/write_buffer.hpp>
#include <gpufs/io/open.hpp>
#include <gpufs/io/read/read.hpp>

#include <cerrno>
#include <cstdint>

namespace gpufs {

namespace io {

using namespace base;

/// Removes the pages of chosen frames from the cache, unless they are pinned or dirty. All lanes of
/// a warp call, a frame each. A frame chosen by its name may get another page before the claim.
/// Then that page goes.
__device__ __forceinline__ void discard_frames(fs_ref const& fs, bool chosen, std::uint32_t frame) {
  handle::page_cache_ref const& c = fs.cache;
  // A write buffer pins its page, until it is taken for another one.
  if (chosen) dirty::release_clean(fs, frame);
  cache::phase const was = chosen ? cache::claim(c.headers[frame]) : cache::phase::evicting;
  cache::remove_each(c, was == cache::phase::ready, frame);
  if (was != cache::phase::evicting) cache::release_evicting(c.headers[frame]);
  __syncwarp();
}

/// Pages [first, end) of a file version.
struct page_range {
  std::uint64_t version;
  std::uint64_t first;
  std::uint64_t end;
};

/// Removes a warp's share of a range from the cache. All lanes of the warp call. Waits for no page.
/// Goes page by page, or over all frames if the range has more pages than that has steps.
GPUFS_LIBRARY_STAGE void discard_pages(fs_ref const* __restrict__ handle, page_range const range,
                                       unsigned warp, unsigned warps) {
  handle::page_cache_ref const& c = handle->cache;
  unsigned const lane = lane_id();
  if (range.end - range.first <= c.frame_count / warp_size) {
    for (std::uint64_t page = range.first + warp; page < range.end; page += warps) {
      cache::page_location const at = cache::locate(c, range.version, page);
      std::uint64_t const entry =
          cache::bucket_entry(c, at.bucket, lane).load(memory_order_relaxed);
      std::uint32_t const frame = static_cast<std::uint32_t>(entry) - 1;
      bool const chosen = at.may_be(entry) && cache::names(c.headers[frame], range.version, page);
      discard_frames(*handle, chosen, frame);
    }
    return;
  }
  for (std::uint64_t base = std::uint64_t(warp) * warp_size; base < c.frame_count;
       base += std::uint64_t(warps) * warp_size) {
    auto const frame = static_cast<std::uint32_t>(base + lane);
    bool chosen = frame < c.frame_count;
    if (chosen) {
      cache::frame_header& h = c.headers[frame];
      std::uint64_t const version =
          atomic_ref<std::uint64_t, scope::device>(h.version).load(memory_order_relaxed);
      std::uint64_t const page =
          atomic_ref<std::uint64_t, scope::device>(h.page).load(memory_order_relaxed);
      chosen = cache::phase_of(cache::frame_state(h).load(memory_order_relaxed)) ==
                   cache::phase::ready &&
               version == range.version && page >= range.first && page < range.end;
    }
    discard_frames(*handle, chosen, frame);
  }
}

/// Has the host note advice about a whole file, and every context look at it. All lanes of one warp
/// call. Returns 0 or an error.
__device__ __forceinline__ std::int32_t advise_file(fs_ref const& fs, std::int32_t fd,
                                                    advice what) {
  std::int32_t const result =
      plain_call(fs, rpc::operation::advise, fd, static_cast<std::uint64_t>(what));
  // Pairs with the acquire in current_advice(). A thread that sees the change also sees the record
  // that the host changed before it answered.
  if (result == 0 && lane_id() == 0) {
    atomic_ref<std::uint32_t, scope::device>(*fs.seats.advice_changes)
        .fetch_add(1, memory_order_release);
  }
  __syncwarp();
  return result;
}

}  // namespace io

template <class Group>
__device__ int gfadvise(io_context<Group>& io, int fd, std::int64_t offset, std::int64_t length,
                        advice what) {
  using ops = typename io_context<Group>::ops;
  Group const& group = io.group();
  unsigned const warps = ops::warps(group);
  if (warps == 0) return -EINVAL;
  if (std::int32_t const error = io::use_file(io, fd); error != 0) return error;
  if (offset < 0 || length < 0) return -EINVAL;
  if (concerns_whole_file(what))
    return io::in_first_warp(group, [&] { return io::advise_file(io.fs(), fd, what); });
  if (what != advice::willneed && what != advice::dontneed) return -EINVAL;

  file::used_file const& file = io.file();
  unsigned const shift = io.fs().cache.page_shift;
  std::uint64_t const page_bytes = std::uint64_t(1) << shift;
  auto const begin = static_cast<std::uint64_t>(offset);
  auto const bytes = static_cast<std::uint64_t>(length);
  if (begin >= file.size) return 0;
  bool const to_the_end = bytes == 0 || bytes >= file.size - begin;
  std::uint64_t const end = to_the_end ? file.size : begin + bytes;
  if (what == advice::willneed) {
    std::uint64_t const most = std::uint64_t(io.fs().cache.frame_count) << shift;
    std::uint64_t const from = begin >> shift << shift;
    std::uint64_t const to = from + base::least(end - from, most);
    return io::read_pages(io, io::read_span{nullptr, from, to, file.version, file.size, file.fd,
                                            shift, file.write_index != 0})
        .error;
  }
  // Only whole pages go: the advice does not cover the rest of a page that the range cuts. The
  // file's last page counts as whole if the range reaches the end of the file.
  io::page_range const range{file.version, (begin + page_bytes - 1) >> shift,
                             to_the_end ? ((end - 1) >> shift) + 1 : end >> shift};
  ops::sync(group);  // the group's reads are over
  if (range.first < range.end && ops::warp(group) < warps) {
    io::discard_pages(io.handle(), range, ops::warp(group), warps);
  }
  ops::sync(group);
  return 0;
}

}  // namespace gpufs
