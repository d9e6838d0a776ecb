// What some lanes of a warp, which came to a call together, do about pages that are not in the
// cache, a page each.
#pragma once

#include <gpufs/cache/pull_gate.hpp>
#include <gpufs/io/fetch.hpp>
#include <gpufs/io/windows.hpp>

#include <cstdint>

namespace gpufs::detail {

/// Channels that a lane looks at before it gives up for now.
inline constexpr unsigned channels_tried = 16;

/// Takes a channel, if one of those that this lane looks at is to be had. Any single thread calls;
/// nobody waits.
__device__ __forceinline__ bool lane_channel(fs_ref const& fs, unsigned attempt, channel& out) {
  std::uint32_t const first =
      warp_number() * fs.page_channels.spacing + lane_id() + attempt * channels_tried;
  for (unsigned i = 0; i < channels_tried; ++i) {
    if (try_channel(fs, fs.page_channels, (first + i) % fs.page_channels.count, out)) return true;
  }
  return false;
}

/// Finds a page, or enters it and requests its bytes, unless a window has them. The status is hit,
/// waiting, fetching (all pinned), or none: then nothing is held. Any single thread calls; nobody
/// waits.
__device__ __forceinline__ page_entry lane_enter(fs_ref const& fs, page_name const& name,
                                                 std::int32_t slot, unsigned attempt) {
  page_entry e;
  lookup const found = lane_find_and_pin(fs.cache, name.uid, name.page);
  if (found.result != lookup_result::absent) {
    e.status = found.result == lookup_result::hit ? page_status::hit : page_status::waiting;
    e.frame = found.frame;
    e.got = found.valid;
    return e;
  }
  std::uint64_t window = 0;
  if (fs.windows.entries != nullptr && !name.whole)
    window = window_address(fs.self, name.uid, name.page << fs.cache.page_shift, name.expected);
  if (window == 0 && !lane_channel(fs, attempt, e.via)) return e;
  taken_frame const taken = take_each<one_lane>(fs.cache, slot, true);
  if (taken.evicted) count(fs, counter::evictions);
  bool entered = false;
  if (taken.frame >= 0) {
    e.frame = static_cast<std::uint32_t>(taken.frame);
    begin_fill(fs.cache.headers[e.frame], name.uid, name.page);
    insert_result const result = lane_insert(fs.cache, name.uid, name.page, e.frame);
    entered = result == insert_result::inserted;
    if (!entered) release_filling(fs.cache.headers[e.frame]);
    if (result == insert_result::full && evict_from_bucket(fs.cache, name.uid, name.page))
      count(fs, counter::evictions);
  }
  if (!entered) {
    if (window == 0) return_channel(fs.page_channels, e.via, true);  // never used
    return e;
  }
  if (window != 0) return page_entry::of_window(e.frame, window, name.expected);
  e.status = page_status::fetching;
  submit_alone(fs, page_request(fs, name, e.via, 0));
  return e;
}

/// Waits for the answers until the page is complete, at the file's end, or in error. Any single
/// thread calls.
__device__ __forceinline__ void lane_await(fs_ref const& fs, page_name const& name, page_entry& e) {
  bool answered = false;
  std::int32_t const result = await(fs, e.via, answered);
  e.answered = answered ? 1 : 0;
  if (!answered && result == -ETIMEDOUT) count(fs, counter::timeouts);
  finish_page(fs, name, e, result);
}

/// Pulls a page of `got` bytes out of pinned staging into its frame; the rest of the frame becomes
/// zeros. All lanes of the group call.
__device__ __forceinline__ void converged_pull(converged_group const& g, std::byte* frame,
                                               std::byte const* staging, std::uint64_t page_bytes,
                                               std::uint64_t got) {
  auto* const to = reinterpret_cast<uint4*>(frame);
  auto const* const from = reinterpret_cast<uint4 const*>(staging);
  std::uint64_t const units = got / 16;
  constexpr unsigned together = 4;  // loads under way per lane
  std::uint64_t i = g.thread_rank();
  unsigned const n = g.size();
  for (; i + std::uint64_t(n) * (together - 1) < units; i += std::uint64_t(n) * together) {
    uint4 v[together];
    GPUFS_UNROLL
    for (unsigned u = 0; u < together; ++u) v[u] = __ldcv(from + i + std::uint64_t(u) * n);
    GPUFS_UNROLL
    for (unsigned u = 0; u < together; ++u) to[i + std::uint64_t(u) * n] = v[u];
  }
  for (; i < units; i += n) to[i] = __ldcv(from + i);
  for (std::uint64_t b = units * 16 + g.thread_rank(); b < page_bytes; b += n)
    frame[b] =
        b < got
            ? static_cast<std::byte>(__ldcv(reinterpret_cast<unsigned char const*>(staging) + b))
            : std::byte{0};
}

/// Waits for a page that somebody else brings in: it becomes hit (still pinned), failed, or none
/// (its frame came to hold another). Only for lanes whose group owes nobody a page. Any single
/// thread calls.
__device__ __forceinline__ void lane_await_other(fs_ref const& fs, page_name const& name,
                                                 page_entry& e) {
  frame_header& h = fs.cache.headers[e.frame];
  phase now = phase::filling;
  // Acquire pairs with publish() and fail(). The filler waits for the daemon only, within its own
  // timeout.
  int const error = spin_until(fs, device_pause_ns, [&] {
    now = phase_of(frame_state(h).load(memory_order_acquire));
    return now != phase::filling;
  });
  bool const ours = names(h, name.uid, name.page);
  e.status = page_status::none;
  if (error != 0) {
    e.status = page_status::failed;
    e.error = error;
  } else if (ours && now == phase::ready) {
    e.status = page_status::hit;
    e.got = valid_bytes(h);
    return;
  } else if (ours && now == phase::failed) {
    e.status = page_status::failed;
    e.error = fetch_error(h);
  }
  unpin_read(h);
}

/// Brings a page in for each lane that `wants` one, no two the same. All of `lanes` call together,
/// which need not be a whole warp. The status is hit (pinned for the lane), failed, or none: no
/// frame or channel was to be had, nothing is held, to be tried again.
///
/// Lanes wait for the daemon while they owe pages, and for pages that others owe only after that:
/// so waits cannot form a circle, however a warp's lanes, or warps, want each other's pages. The
/// bytes of each page are moved by all lanes together.
GPUFS_STAGE inline page_entry fetch_for_lanes(fs_ref const* handle, unsigned lanes, bool wants,
                                              page_name const name, std::int32_t slot,
                                              unsigned attempt) {
  fs_ref const& fs = *handle;
  converged_group const g(lanes);
  page_entry e;
  if (wants) e = lane_enter(fs, name, slot, attempt);
  bool const fetching = e.status == page_status::fetching;
  bool const requested = fetching && !e.in_window();
  if (requested) lane_await(fs, name, e);
  g.sync();
  std::uint64_t const page_bytes = std::uint64_t(1) << fs.cache.page_shift;
  std::uint64_t over_bus = 0;
  std::uint64_t by_dma = 0;
  std::uint64_t mapped = 0;
  for (unsigned left = g.ballot(fetching && e.error == 0); left != 0; left &= left - 1) {
    auto const from = static_cast<unsigned>(__ffs(static_cast<int>(left)) - 1);
    page_entry page;
    page.frame = g.shfl(e.frame, from);
    page.via = {g.shfl(e.via.number, from), g.shfl(e.via.sequence, from)};
    page.chunk_offset = g.shfl(e.chunk_offset, from);
    page.got = g.shfl(e.got, from);
    page.answered = g.shfl(e.answered, from);
    bool const twin = (page.chunk_offset & in_twin) != 0;
    (page.in_window() ? mapped : twin ? by_dma : over_bus) += page.got;
    std::byte* const frame = frame_bytes(fs.cache, page.frame);
    {
      pull_gate gate(fs, lanes);
      if (!twin) gate.pass();
      converged_pull(g, frame, source_of(fs, page), page_bytes, page.got);
    }
    settle_frame(frame, 0, page_bytes, lanes, g.thread_rank(), g.size());
  }
  g.sync();  // the pulls are over before pages are published and channels go
  if (fetching) {
    frame_header& h = fs.cache.headers[e.frame];
    if (e.error == 0) {
      static_cast<void>(pin(h));
      publish(h, e.got, after_settling);
      e.status = page_status::hit;
    } else {
      lane_remove(fs.cache, e.frame);
      fail(h, e.error);
      e.status = page_status::failed;
    }
    if (requested) return_channel(fs.page_channels, e.via, e.answered != 0, after_settling);
  }
  bool const waits = e.status == page_status::waiting;
  auto const misses = static_cast<unsigned>(__popc(g.ballot(fetching)));
  auto const requests = static_cast<unsigned>(__popc(g.ballot(requested)));
  auto const failures = static_cast<unsigned>(__popc(g.ballot(fetching && e.error != 0)));
  auto const waited = static_cast<unsigned>(__popc(g.ballot(waits)));
  if (g.thread_rank() == 0) {
    count(fs, counter::misses, misses);
    count(fs, counter::requests, requests);
    count(fs, counter::read_requests, requests);
    count(fs, counter::bytes_pulled, over_bus);
    count(fs, counter::bytes_mapped, mapped);
    count(fs, counter::bytes_dma, by_dma);
    count(fs, counter::errors, failures);
    count(fs, counter::waits, waited);
  }
  if (waits) lane_await_other(fs, name, e);
  return e;
}

}  // namespace gpufs::detail
