// Ends a batch when its bytes are in place: publish, unpin, return channels. Then it waits for
// others' pages. The group's first warp does this.
#pragma once

#include <gpufs/io/read/begin_batch.hpp>

#include <cstdint>

namespace gpufs::io {

using namespace base;

/// Publishes or fails the pages that this group fetched, and unpins those that it found. All lanes
/// of a warp call, after a barrier with all other warps that moved bytes. The bytes are settled
/// (see settled.hpp). Entries become none, except those of waiting pages. Returns the offset and
/// error at which these pages stop the read.
GPUFS_LIBRARY_STAGE read_stop end_batch(fs_ref const* __restrict__ handle, batch const b,
                                        source::fill* entry) {
  fs_ref const& fs = *handle;
  source::fill const e = *entry;
  bool const fetching = e.status == source::page_status::fetching;
  if (fetching && e.error == 0) cache::publish(fs.cache.headers[e.frame], e.got, after_settling);
  if (fetching && e.kind == source::source_kind::channel) {
    ring::return_channel(fs.channels.page, e.via, e.answered, after_settling);
  }
  if (e.status == source::page_status::hit) cache::unpin_read(fs.cache.headers[e.frame]);
  __syncwarp();
  for_each_lane(__ballot_sync(all_lanes, fetching && e.error != 0), [&](unsigned from) {
    source::fail_page(fs, warp_broadcast(e.frame, from), warp_broadcast(e.error, from));
  });
  auto const misses = count_lanes(__ballot_sync(all_lanes, fetching));
  // At most 32 pages of 4 MiB, so the sum fits 32 bits.
  std::uint32_t const arrived = warp_sum(fetching ? e.got : 0);
  bool const twin = fetching && e.in_twin;
  bool const window = fetching && e.kind == source::source_kind::window;
  std::uint32_t const by_dma = __ballot_sync(all_lanes, twin) == 0 ? 0 : warp_sum(twin ? e.got : 0);
  std::uint32_t const registered =
      __ballot_sync(all_lanes, window) == 0 ? 0 : warp_sum(window ? e.got : 0);
  if (lane_id() == 0) {
    handle::count(fs, b.span.fd, handle::file_counter::misses, misses);
    handle::add(fs, handle::counter::bytes_registered, registered);
    handle::add(fs, handle::counter::bytes_pulled, arrived - by_dma - registered);
    handle::add(fs, handle::counter::bytes_dma, by_dma);
  }
  read_stop stop;
  if (fetching || e.status == source::page_status::hit || e.status == source::page_status::failed) {
    stop.note_page(b.span, b.first + lane_id(), {e.got, e.error});
  }
  if (e.status != source::page_status::waiting) *entry = {};
  __syncwarp();
  if (__ballot_sync(all_lanes, !stop.none()) == 0) return stop;
  return read_stop::of(warp_min(stop.key()));
}

/// Waits for pages that other groups bring in; they become hits, or failed. All lanes of the first
/// warp call. The group owes no page, so waits cannot form a circle. Returns the pages to be moved,
/// and in `again` those whose frame got another page.
GPUFS_LIBRARY_STAGE batch_step await_others(fs_ref const* __restrict__ handle, batch const b,
                                            source::fill* entry) {
  fs_ref const& fs = *handle;
  source::fill e = *entry;
  bool const waits = e.status == source::page_status::waiting;
  bool pending = waits;
  cache::frame_header* const h = waits ? fs.cache.headers + e.frame : nullptr;
  // The filler waits only for the daemon, with a timeout of its own. Ours may end a little earlier.
  std::int32_t const error = handle::warp_spin_until(fs, [&] {
    // Acquire pairs with publish() and fail().
    if (pending)
      pending = cache::phase_of(cache::frame_state(*h).load(memory_order_acquire)) ==
                cache::phase::filling;
    return __ballot_sync(all_lanes, pending) == 0;
  });
  __syncwarp();
  bool again = false;
  if (waits) {
    e.status = source::page_status::failed;
    e.error = error;
    if (!pending) {
      cache::phase const now = cache::phase_of(cache::frame_state(*h).load(memory_order_acquire));
      bool const ours = cache::names(*h, b.span.version, b.first + lane_id());
      if (ours && now == cache::phase::ready) {
        e.status = source::page_status::hit;
        e.got = cache::valid_bytes(*h);
        e.error = 0;
      } else if (ours && now == cache::phase::failed) {
        e.error = cache::fetch_error(*h);
      } else {
        again = true;  // its filler gave up, and the frame may have another page
        e = {};
      }
    }
    if (e.status != source::page_status::hit) cache::unpin_read(*h);
    *entry = e;
  }
  auto const waited = count_lanes(__ballot_sync(all_lanes, waits));
  if (lane_id() == 0) handle::count(fs, b.span.fd, handle::file_counter::waits, waited);
  batch_step step;
  step.moving =
      __ballot_sync(all_lanes, waits && e.status == source::page_status::hit && e.got != 0);
  step.again = __ballot_sync(all_lanes, again);
  return step;
}

}  // namespace gpufs::io
