// Fetches missing pages for some lanes of a warp that came to a call together, a page per lane.
#pragma once

#include <gpufs/cache/line.hpp>
#include <gpufs/io/element/ahead.hpp>
#include <gpufs/io/read/enter_page.hpp>
#include <gpufs/ring/submit.hpp>
#include <gpufs/source/pull_gate.hpp>
#include <gpufs/source/staged.hpp>
#include <gpufs/source/window.hpp>

#include <cstdint>

namespace gpufs::io {

using namespace base;

/// Channels that a lane tries before it gives up for this attempt.
inline constexpr unsigned channels_tried = 16;

/// Takes a channel if one of those that this lane tries is free. Any thread calls. Never waits.
__device__ __forceinline__ bool lane_channel(fs_ref const& fs, unsigned attempt,
                                             ring::channel& out) {
  std::uint32_t const first =
      warp_number() * fs.channels.page.spacing + lane_id() + attempt * channels_tried;
  for (unsigned i = 0; i < channels_tried; ++i) {
    if (ring::try_channel(fs, fs.channels.page, (first + i) % fs.channels.page.count, out))
      return true;
  }
  return false;
}

/// Finds a page. If it is absent, enters it and requests its bytes, unless a file window has them.
/// Any thread calls. Waits for a bucket's lock at most. The status is hit, waiting or fetching,
/// with a pin, or none, with no pin and no channel. Others may wait in the frame line. Then only a
/// caller in front (`turn`) enters a page.
__device__ __forceinline__ source::fill lane_enter(fs_ref const& fs, source::page_name const& name,
                                                   std::int32_t seat, unsigned attempt,
                                                   std::uint32_t turn) {
  source::fill e;
  cache::lookup const found = cache::lane_find_and_pin(fs.cache, name.version, name.page);
  if (found.result != cache::lookup_result::absent) return source::fill::by_look_up(found);
  if (!cache::may_take(*fs.cache.line, turn)) return e;
  std::uint64_t window = 0;
  if (fs.windows.entries != nullptr && !name.zero_filled)
    window = source::window_address(fs.self, name.version, name.page << fs.cache.page_shift,
                                    name.expected);
  if (window == 0 && !lane_channel(fs, attempt, e.via)) {
    help_channels<one_lane>(fs, attempt);
    return e;
  }
  cache::taken_frame const taken = take_frames<one_lane>(fs, seat, true);
  if (taken.evicted) handle::add(fs, handle::counter::evictions);
  bool entered = false;
  if (taken.frame >= 0) {
    e.frame = static_cast<std::uint32_t>(taken.frame);
    cache::begin_fill(fs.cache.headers[e.frame], name.version, name.page);
    cache::insert_result const result =
        cache::lane_insert(fs.cache, name.version, name.page, e.frame);
    entered = result == cache::insert_result::inserted;
    if (!entered) cache::release_filling(fs.cache.headers[e.frame]);
    if (result == cache::insert_result::full && make_room(fs, name))
      handle::add(fs, handle::counter::evictions);
  }
  if (!entered) {
    if (window == 0) ring::return_channel(fs.channels.page, e.via, true);  // never used
    return e;
  }
  if (window != 0) return source::fill::by_window(e.frame, window, name.expected);
  e.status = source::page_status::fetching;
  if (fs.ahead.count != 0) {
    ring::channel const ahead = take_ahead(fs.self, name);
    if (ahead.sequence != 0) {
      ring::return_channel(fs.channels.page, e.via, true);  // never used
      e.via = ahead;
      e.ahead = 1;
      return e;
    }
  }
  if (source::read_by_drives<one_lane>(fs, true, name, e.via, 0)) return e;
  rpc::request request = source::page_request(fs, name, e.via, 0);
  request.flags |= rpc::read_for_elements;
  ring::submit_alone(fs, request);
  return e;
}

/// Waits for answers until the page is complete, cut by the end of the file, or failed. Any thread
/// calls.
__device__ __forceinline__ void lane_await(fs_ref const& fs, source::page_name const& name,
                                           source::fill& e) {
  bool answered = false;
  std::int32_t result = source::await_answer(fs, e.via, source::may_be_owed(name), answered);
  e.answered = answered;
  // The error of a request ahead may be of another time or descriptor.
  if (e.ahead && answered && result < 0) result = ring::try_again;
  if (!answered && result == -ETIMEDOUT) handle::add(fs, handle::counter::timeouts);
  source::finish_page(fs, name, e, result);
}

/// Copies units of 16 bytes from host memory, from unit `i` on, the lane's first. Has `Together`
/// loads under way per lane. All lanes of the group call. Returns the first unit of the lane's that
/// is left: a last round without that many is not begun.
template <unsigned Together>
__device__ __forceinline__ std::uint64_t pull_units(converged_group const& g, uint4* to,
                                                    uint4 const* from, std::uint64_t i,
                                                    std::uint64_t units) {
  unsigned const n = g.size();
  for (; i + std::uint64_t(n) * (Together - 1) < units; i += std::uint64_t(n) * Together) {
    uint4 v[Together];
    GPUFS_UNROLL
    for (unsigned u = 0; u < Together; ++u) v[u] = __ldcv(from + i + std::uint64_t(u) * n);
    GPUFS_UNROLL
    for (unsigned u = 0; u < Together; ++u) to[i + std::uint64_t(u) * n] = v[u];
  }
  return i;
}

/// Pulls `got` bytes of a page from their source into its frame and zeros the rest of the frame.
/// All lanes of the group call.
__device__ __forceinline__ void converged_pull(converged_group const& g, std::byte* frame,
                                               std::byte const* staging, std::uint64_t page_bytes,
                                               std::uint64_t got) {
  auto* const to = reinterpret_cast<uint4*>(frame);
  auto const* const from = reinterpret_cast<uint4 const*>(staging);
  std::uint64_t const units = got / 16;
  unsigned const n = g.size();
  std::uint64_t i = g.thread_rank();
  // Few lanes have more loads under way each. One alone, with four, would take milliseconds for a
  // long page. Meanwhile it has its place at the pull gate.
  if (n < 8) i = pull_units<16>(g, to, from, i, units);
  i = pull_units<4>(g, to, from, i, units);
  for (; i < units; i += n) to[i] = __ldcv(from + i);
  for (std::uint64_t b = units * 16 + g.thread_rank(); b < page_bytes; b += n)
    frame[b] =
        b < got
            ? static_cast<std::byte>(__ldcv(reinterpret_cast<unsigned char const*>(staging) + b))
            : std::byte{0};
}

/// Waits for a page that another group brings in. Any thread calls; its group owes no page. The
/// status becomes hit, still pinned, or failed, or none if the frame got another page.
__device__ __forceinline__ void lane_await_other(fs_ref const& fs, source::page_name const& name,
                                                 source::fill& e) {
  cache::frame_header& h = fs.cache.headers[e.frame];
  cache::phase now = cache::phase::filling;
  // Acquire pairs with publish() and fail(). The filler waits only for the daemon, with a timeout
  // of its own.
  int const error = handle::spin_until(fs, handle::device_pause_ns, [&] {
    now = cache::phase_of(cache::frame_state(h).load(memory_order_acquire));
    return now != cache::phase::filling;
  });
  bool const ours = cache::names(h, name.version, name.page);
  e.status = source::page_status::none;
  if (error != 0) {
    e.status = source::page_status::failed;
    e.error = error;
  } else if (ours && now == cache::phase::ready) {
    e.status = source::page_status::hit;
    e.got = cache::valid_bytes(h);
    return;
  } else if (ours && now == cache::phase::failed) {
    e.status = source::page_status::failed;
    e.error = cache::fetch_error(h);
  }
  cache::unpin_read(h);
}

/// Publishes a page that one lane has fetched, with a pin for that lane, or fails it. Gives its
/// channel back if it was `requested`. That lane calls, behind the pulls.
__device__ __forceinline__ void lane_settle(fs_ref const& fs, source::fill& e, bool requested) {
  cache::frame_header& h = fs.cache.headers[e.frame];
  if (e.error == 0) {
    static_cast<void>(cache::pin(h));
    cache::publish(h, e.got, after_settling);
    e.status = source::page_status::hit;
  } else {
    cache::lane_remove(fs.cache, e.frame);
    cache::fail(h, e.error);
    e.status = source::page_status::failed;
  }
  if (requested) ring::return_channel(fs.channels.page, e.via, e.answered, after_settling);
}

struct fetched_page {
  source::fill entry;
  bool left;  ///< the lanes have left the frame line
};

/// Brings in a page for each lane that `wants` one; these pages differ. All of `lanes` call
/// together. They need not be a whole warp. The status of such a lane becomes hit, with a pin, or
/// failed, or none. With none the lane has no pin and must try again. It found no frame or channel,
/// or the frame that it waited for got another page.
///
/// The lanes have `turn` in the frame line, or no_turn. They leave the line as soon as one of them
/// has a page, unless they `stay`; `left` says whether they have left.
///
/// Lanes wait for the daemon while they owe pages. Only after that they wait for pages of others.
/// So waits cannot form a circle, whichever pages the lanes and warps need. All lanes together move
/// the bytes of each page.
GPUFS_LIBRARY_STAGE fetched_page fetch_for_lanes(fs_ref const* __restrict__ handle, unsigned lanes,
                                                 bool wants, source::page_name const name,
                                                 std::int32_t seat, unsigned attempt,
                                                 std::uint32_t turn, bool stay) {
  fs_ref const& fs = *handle;
  converged_group const g(lanes);
  source::fill e;
  if (wants) e = lane_enter(fs, name, seat, attempt, turn);
  bool const left = turn != cache::no_turn && !stay && g.any(e.status != source::page_status::none);
  if (left && g.thread_rank() == 0) cache::leave_line(*fs.cache.line, turn, true);
  bool const fetching = e.status == source::page_status::fetching;
  bool const requested = fetching && e.kind == source::source_kind::channel;
  if (requested) lane_await(fs, name, e);
  g.sync();
  std::uint32_t const page_bytes = std::uint32_t{1} << fs.cache.page_shift;
  std::uint64_t over_bus = 0;
  std::uint64_t by_dma = 0;
  std::uint64_t registered = 0;
  for_each_lane(g.ballot(fetching && e.error == 0), [&](unsigned from) {
    source::fill const page =
        source::shuffled(e, [&](std::uint32_t word) { return g.shfl(word, from); });
    bool const twin = page.in_twin;
    (page.kind == source::source_kind::window ? registered : twin ? by_dma : over_bus) += page.got;
    std::byte* const frame = cache::frame_bytes(fs.cache, page.frame);
    {
      source::pull_gate gate(fs, lanes);
      if (!twin) gate.pass();
      converged_pull(g, frame, source::source_of(fs, page), page_bytes, page.got);
    }
    settle_frame(frame, 0, page_bytes, lanes, g.thread_rank(), g.size());
  });
  g.sync();  // the pulls end before pages are published and channels go back
  if (fetching) lane_settle(fs, e, requested);
  bool const waits = e.status == source::page_status::waiting;
  auto const misses = count_lanes(g.ballot(fetching));
  auto const requests = count_lanes(g.ballot(requested && !e.ahead));
  auto const failures = count_lanes(g.ballot(fetching && e.error != 0));
  auto const waited = count_lanes(g.ballot(waits));
  if (g.thread_rank() == 0) {
    handle::count(fs, name.fd, handle::file_counter::misses, misses);
    handle::add(fs, handle::counter::requests, requests);
    handle::add(fs, handle::counter::read_requests, requests);
    handle::add(fs, handle::counter::bytes_pulled, over_bus);
    handle::add(fs, handle::counter::bytes_registered, registered);
    handle::add(fs, handle::counter::bytes_dma, by_dma);
    handle::add(fs, handle::counter::errors, failures);
    handle::count(fs, name.fd, handle::file_counter::waits, waited);
  }
  if (waits) lane_await_other(fs, name, e);
  return {e, left};
}

}  // namespace gpufs::io
