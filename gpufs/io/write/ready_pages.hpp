// Makes pages ready for a gwrite: at once if possible, or in turn.
#pragma once

#include <gpufs/io/write/write_pages.hpp>

#include <cerrno>
#include <cstdint>

namespace gpufs::io {

using namespace base;

/// Makes a cached page ready. `frame` is pinned and stays so if the page becomes ready. All lanes
/// of a warp call.
__device__ __forceinline__ write_page ready_cached(fs_ref const& fs, write_span const& span,
                                                   std::uint64_t page, std::uint32_t frame) {
  std::int64_t const buffer = open_frame(fs, frame, span.version, page, span.range(page));
  if (buffer >= 0) return {write_status::ready, frame, static_cast<std::uint32_t>(buffer), 0};
  if (lane_id() == 0) cache::unpin_read(fs.cache.headers[frame]);
  __syncwarp();
  return {write_status::later, 0, 0, 0};
}

/// Makes ready a page that this warp has entered and fills. Fetches it only if some of its old
/// bytes stay. Attaches `buffer`, which the warp has taken. All lanes of a warp call. If the status
/// is failed, the warp still has the buffer.
__device__ __forceinline__ write_page fill_for_write(fs_ref const& fs, write_span const& span,
                                                     std::uint64_t page, std::uint32_t buffer,
                                                     source::fill work) {
  // A caller that made the file longer within this page raised the size before the page could
  // leave the cache. So the size shows whether the page has bytes.
  std::uint64_t size = 0;
  if (lane_id() == 0)
    size = atomic_ref<std::uint64_t, scope::device>(fs.writes.files[span.write_index - 1].size)
               .load(memory_order_relaxed);
  size = warp_broadcast(size);
  std::uint64_t const start = page << span.page_shift;
  std::uint64_t const old = size <= start ? 0 : least(size - start, span.page_bytes());
  rpc::byte_range const r = span.range(page);
  bool const covered = r.begin == 0 && r.end >= old;
  if (!span.once && old != 0 && !covered) {
    std::int32_t const error = fetch_page(fs, span.name(page), work);
    if (error != 0) return {write_status::failed, 0, 0, error};
  } else if (!span.once) {
    std::byte* const frame = cache::frame_bytes(fs.cache, work.frame);
    zero_frame(frame, 0, r.begin);
    zero_frame(frame, r.end, span.page_bytes());
  }
  if (lane_id() == 0) {
    std::uint32_t had = 0;
    // No caller writes to a page that is being filled. But take_buffer() may look at the frame's
    // last buffer for a moment.
    for (unsigned pause = 0; !dirty::try_lock_frame(fs, work.frame, had);) backoff(pause);
    dirty::attach_buffer(fs, buffer, work.frame, span.version, page);
  }
  __syncwarp();
  return {write_status::filling, work.frame, buffer, 0};
}

/// Makes a page ready that is not in the cache. All lanes of a warp call.
__device__ __forceinline__ write_page ready_absent(fs_ref const& fs, write_span const& span,
                                                   std::int32_t seat, std::uint64_t page) {
  // First, so that no page is entered if no buffer is free.
  std::int64_t const taken = dirty::take_buffer(fs, cache::line_wait<>(*fs.writes.line));
  if (taken < 0) return {write_status::later, 0, 0, 0};
  auto const buffer = static_cast<std::uint32_t>(taken);
  source::fill const work =
      enter_page(fs, seat, span.name(page), cache::line_wait<>(*fs.cache.line));
  write_page done{write_status::later, 0, 0, 0};
  if (work.status == source::page_status::fetching)
    done = fill_for_write(fs, span, page, buffer, work);
  if (lane_id() == 0) {
    if (done.status != write_status::filling) dirty::give_back_buffer(fs, buffer);
    if (work.status == source::page_status::hit || work.status == source::page_status::waiting)
      cache::unpin_read(fs.cache.headers[work.frame]);
  }
  __syncwarp();
  return done;
}

/// Makes a page ready to be written if it can be done now, or returns the reason why not. All lanes
/// of a warp call. Waits for a channel and for the daemon, and for no page of another group.
GPUFS_LIBRARY_STAGE write_page ready_page(fs_ref const* __restrict__ handle, write_span const span,
                                          std::int32_t seat, std::uint64_t page) {
  fs_ref const& fs = *handle;
  cache::lookup const found = cache::find_and_pin(fs.cache, span.version, page);
  if (found.result == cache::lookup_result::absent) return ready_absent(fs, span, seat, page);
  if (found.result == cache::lookup_result::hit) return ready_cached(fs, span, page, found.frame);
  if (lane_id() == 0) cache::unpin_read(fs.cache.headers[found.frame]);
  __syncwarp();
  return {write_status::later, 0, 0, 0};
}

/// Makes a page ready, and waits for all that it needs: first for a write buffer, then for a frame,
/// then for the frame's lock. All lanes of a warp call; their group holds no page and no buffer.
/// The status is ready, filling or failed.
///
/// This order prevents a circle. Holders of locks wait for the daemon only. Holders of frames wait
/// for no frame and no buffer, since only this function waits for a buffer, and it does so first.
GPUFS_LIBRARY_STAGE write_page ready_in_turn(fs_ref const* __restrict__ handle,
                                             write_span const span, std::int32_t seat,
                                             std::uint64_t page) {
  fs_ref const& fs = *handle;
  std::int64_t const spare = dirty::buffer_in_turn(fs);
  if (spare < 0) return {write_status::failed, 0, 0, static_cast<std::int32_t>(spare)};
  source::fill const work = enter_in_turn(fs, seat, span.name(page));
  write_page done{write_status::failed, 0, 0, work.error};
  if (work.status == source::page_status::fetching) {
    done = fill_for_write(fs, span, page, static_cast<std::uint32_t>(spare), work);
  } else if (work.status == source::page_status::hit) {
    std::int64_t buffer = -1, last = -1;  // what it is, or was when the frame was not locked
    // The pin stays, so the page does, too.
    done.error = handle::warp_spin_until(fs, [&] {
      buffer = open_frame(fs, work.frame, span.version, page, span.range(page), spare);
      if (buffer != -1) last = buffer;
      return buffer >= 0;
    });
    if (buffer >= 0)
      done = {write_status::ready, work.frame, static_cast<std::uint32_t>(buffer), 0};
    if (buffer < 0 && lane_id() == 0) cache::unpin_read(fs.cache.headers[work.frame]);
    // The buffer cannot be written back. Otherwise its holder waits for the host.
    if (done.error == -ETIMEDOUT && last == list_is_full) done.error = -ENOMEM;
  }
  bool const attached = done.status != write_status::failed && done.buffer == spare;
  if (!attached && lane_id() == 0) dirty::give_back_buffer(fs, static_cast<std::uint32_t>(spare));
  __syncwarp();
  return done;
}

}  // namespace gpufs::io
