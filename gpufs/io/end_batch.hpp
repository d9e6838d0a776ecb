// What a group's first warp does when a batch's bytes are in place: publish, unpin, give channels
// back; then wait for others' pages.
#pragma once

#include <gpufs/io/begin_batch.hpp>

#include <cstdint>

namespace gpufs::detail {

/// The sum and the minimum over the lanes of a warp, in every lane.
__device__ __forceinline__ std::uint32_t warp_sum(std::uint32_t value) {
  for (int step = warp_size / 2; step > 0; step /= 2)
    value += __shfl_xor_sync(all_lanes, value, step);
  return value;
}
__device__ __forceinline__ std::uint64_t warp_min(std::uint64_t value) {
  for (int step = warp_size / 2; step > 0; step /= 2) {
    std::uint64_t const other = __shfl_xor_sync(all_lanes, value, step);
    if (other < value) value = other;
  }
  return value;
}

/// Publishes or fails the pages this group fetched and unpins those it found, after a barrier with
/// all who moved bytes; returns where the read must stop because of them. The pages' bytes are
/// settled (see settled.hpp). All lanes of the first warp call. Entries become none, but for
/// waiting ones.
GPUFS_STAGE inline read_stop end_batch(fs_ref const* handle, batch const b, page_entry* entry) {
  fs_ref const& fs = *handle;
  page_entry const e = *entry;
  bool const fetching = e.status == page_status::fetching;
  if (fetching && e.error == 0) publish(fs.cache.headers[e.frame], e.got, after_settling);
  if (fetching && e.has_own_channel()) {
    return_channel(fs.page_channels, e.via, e.answered != 0, after_settling);
  }
  if (e.status == page_status::hit) unpin_read(fs.cache.headers[e.frame]);
  __syncwarp();
  for (unsigned failed = __ballot_sync(all_lanes, fetching && e.error != 0); failed != 0;
       failed &= failed - 1) {
    int const from = __ffs(static_cast<int>(failed)) - 1;
    fail_page(fs, warp_broadcast(e.frame, from), warp_broadcast(e.error, from));
  }
  auto const misses = static_cast<unsigned>(__popc(__ballot_sync(all_lanes, fetching)));
  // 32 pages of 4 MiB at most: they fit 32 bits.
  std::uint32_t const arrived = warp_sum(fetching ? e.got : 0);
  bool const twin = fetching && (e.chunk_offset & in_twin) != 0;
  bool const window = fetching && e.in_window();
  std::uint32_t const by_dma = __ballot_sync(all_lanes, twin) == 0 ? 0 : warp_sum(twin ? e.got : 0);
  std::uint32_t const mapped =
      __ballot_sync(all_lanes, window) == 0 ? 0 : warp_sum(window ? e.got : 0);
  if (lane_id() == 0) {
    count(fs, counter::misses, misses);
    count(fs, counter::bytes_mapped, mapped);
    count(fs, counter::bytes_pulled, arrived - by_dma - mapped);
    count(fs, counter::bytes_dma, by_dma);
  }
  read_stop stop;
  if (fetching || e.status == page_status::hit || e.status == page_status::failed) {
    stop.note_page(b.span, b.first + lane_id(), {e.got, e.error});
  }
  if (e.status != page_status::waiting) *entry = {};
  __syncwarp();
  if (__ballot_sync(all_lanes, !stop.none()) == 0) return stop;
  return read_stop::of(warp_min(stop.key()));
}

/// Waits until the pages that others bring in are there: these become hits, or failed. Only for a
/// group that owes nobody a page, so that waits cannot form a circle. `again` in the result: pages
/// whose frame came to hold another page. All lanes of the first warp call.
GPUFS_STAGE inline batch_step await_others(fs_ref const* handle, batch const b, page_entry* entry) {
  fs_ref const& fs = *handle;
  page_entry e = *entry;
  bool const waits = e.status == page_status::waiting;
  bool pending = waits;
  frame_header* const h = waits ? fs.cache.headers + e.frame : nullptr;
  // The filler waits for the daemon only, within its own timeout; ours may run out a little
  // earlier.
  std::int32_t const error = warp_spin_until(fs, [&] {
    // Acquire pairs with publish() and fail().
    if (pending) pending = phase_of(frame_state(*h).load(memory_order_acquire)) == phase::filling;
    return __ballot_sync(all_lanes, pending) == 0;
  });
  __syncwarp();
  bool again = false;
  if (waits) {
    e.status = page_status::failed;
    e.error = error;
    if (!pending) {
      phase const now = phase_of(frame_state(*h).load(memory_order_acquire));
      bool const ours = names(*h, b.span.uid, b.first + lane_id());
      if (ours && now == phase::ready) {
        e.status = page_status::hit;
        e.got = valid_bytes(*h);
        e.error = 0;
      } else if (ours && now == phase::failed) {
        e.error = fetch_error(*h);
      } else {
        again = true;  // its filler let go, and the frame may hold another page
        e = {};
      }
    }
    if (e.status != page_status::hit) unpin_read(*h);
    *entry = e;
  }
  auto const waited = static_cast<unsigned>(__popc(__ballot_sync(all_lanes, waits)));
  if (lane_id() == 0) count(fs, counter::waits, waited);
  batch_step step;
  step.moving = __ballot_sync(all_lanes, waits && e.status == page_status::hit && e.got != 0);
  step.again = __ballot_sync(all_lanes, again);
  return step;
}

}  // namespace gpufs::detail
