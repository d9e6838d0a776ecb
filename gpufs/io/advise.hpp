// gfadvise: what is said of the whole file goes to the host's registry, which all see; pages are
// brought in or thrown out here.
#pragma once

#include <gpufs/advice.hpp>
#include <gpufs/io/open.hpp>
#include <gpufs/io/read.hpp>

#include <cerrno>
#include <cstdint>

namespace gpufs {

namespace detail {

/// Takes out of the cache what those lanes' frames hold whose `chosen` is set, if nobody has it
/// pinned. All lanes of a warp call. A frame that was chosen by its name may hold another page by
/// the time it is claimed; then that one goes.
__device__ __forceinline__ void discard_frames(page_cache_ref const& c, bool chosen,
                                               std::uint32_t frame) {
  phase const was = chosen ? claim(c.headers[frame]) : phase::evicting;
  remove_each(c, was == phase::ready, frame);
  if (was != phase::evicting) release_evicting(c.headers[frame]);
  __syncwarp();
}

/// Pages [first, end) of a file version.
struct page_range {
  std::uint64_t uid;
  std::uint64_t first;
  std::uint64_t end;
};

/// A warp's share of throwing out a range: page by page, or frame by frame where the range has more
/// pages than that takes steps. All lanes of the warp call. Waits for nobody.
GPUFS_STAGE inline void discard_pages(fs_ref const* handle, page_range const range, unsigned warp,
                                      unsigned warps) {
  page_cache_ref const& c = handle->cache;
  unsigned const lane = lane_id();
  if (range.end - range.first <= c.frame_count / warp_size) {
    for (std::uint64_t page = range.first + warp; page < range.end; page += warps) {
      page_location const at = locate(c, range.uid, page);
      std::uint64_t const entry = bucket_entry(c, at.bucket, lane).load(memory_order_relaxed);
      std::uint32_t const frame = static_cast<std::uint32_t>(entry) - 1;
      bool const chosen = at.may_be(entry) && names(c.headers[frame], range.uid, page);
      discard_frames(c, chosen, frame);
    }
    return;
  }
  for (std::uint64_t base = std::uint64_t(warp) * warp_size; base < c.frame_count;
       base += std::uint64_t(warps) * warp_size) {
    auto const frame = static_cast<std::uint32_t>(base + lane);
    bool chosen = frame < c.frame_count;
    if (chosen) {
      frame_header& h = c.headers[frame];
      std::uint64_t const uid =
          atomic_ref<std::uint64_t, scope::device>(h.uid).load(memory_order_relaxed);
      std::uint64_t const page =
          atomic_ref<std::uint64_t, scope::device>(h.page).load(memory_order_relaxed);
      chosen = phase_of(frame_state(h).load(memory_order_relaxed)) == phase::ready &&
               uid == range.uid && page >= range.first && page < range.end;
    }
    discard_frames(c, chosen, frame);
  }
}

/// Has the host note advice about a whole file, and every context look at it. All lanes of one warp
/// call.
__device__ __forceinline__ std::int32_t advise_file(fs_ref const& fs, std::int32_t fd,
                                                    advice what) {
  rpc::request r;
  r.op = rpc::operation::advise;
  r.file = fd;
  r.argument[0] = static_cast<std::uint64_t>(what);
  std::int32_t const result = control_call(
      fs, r, [](std::byte*) {}, [](std::byte const*) {});
  // Pairs with the acquire in current_advice(): who sees the change sees what the host noted before
  // it answered.
  if (result == 0 && lane_id() == 0) {
    atomic_ref<std::uint32_t, scope::device>(*fs.advice_changes).fetch_add(1, memory_order_release);
  }
  __syncwarp();
  return result;
}

}  // namespace detail

template <class Group>
__device__ int gfadvise(io_context<Group>& io, int fd, std::int64_t offset, std::int64_t length,
                        advice what) {
  using ops = typename io_context<Group>::ops;
  Group const& group = io.group();
  unsigned const warps = ops::warps(group);
  if (warps == 0) return -EINVAL;
  if (std::int32_t const error = detail::use_file(io, fd); error != 0) return error;
  if (offset < 0 || length < 0) return -EINVAL;
  if (concerns_whole_file(what))
    return detail::in_first_warp(group, [&] { return detail::advise_file(io.fs(), fd, what); });
  if (what != advice::willneed && what != advice::dontneed) return -EINVAL;

  used_file const& file = io.file();
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
    std::uint64_t const to = end - from < most ? end : from + most;
    return detail::read_pages(io, read_span{nullptr, from, to, file.uid, file.size, file.fd, shift,
                                            file.place != 0})
        .error;
  }
  // Whole pages only: what else lies in a page that is cut has not been spoken of. The file's last
  // page is whole at its end.
  detail::page_range const range{file.uid, (begin + page_bytes - 1) >> shift,
                                 to_the_end ? ((end - 1) >> shift) + 1 : end >> shift};
  ops::sync(group);  // the group has read what it was reading
  if (range.first < range.end && ops::warp(group) < warps) {
    detail::discard_pages(io.fs().self, range, ops::warp(group), warps);
  }
  ops::sync(group);
  return 0;
}

}  // namespace gpufs
