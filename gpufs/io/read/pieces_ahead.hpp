// Brings the next pieces at a constant distance into the cache, when the one before them has been
// read. A page alone costs its caller a dozen trips to memory; a warp makes them for many at once.
#pragma once

#include <gpufs/io/read/begin_batch.hpp>
#include <gpufs/io/read/end_batch.hpp>
#include <gpufs/io/read/move_pages.hpp>

#include <prefetcher/readahead.hpp>
#include <prefetcher/stride.hpp>

#include <cstdint>

namespace gpufs::io {

using namespace base;

static_assert(prefetch::longest_page_alone <= smallest_slice);

/// What the first warp knows of a batch that has been read.
struct batch_read {
  read_stop stop;  ///< where the read must stop
  /// not 0: when pages ahead were entered, of device_clock_ns(); read_pieces_ahead() must follow
  std::uint64_t ahead_since = 0;
};

/// Whether pieces are to be brought in ahead of a read that has brought in pages of `b` itself. All
/// lanes of the group's first warp call.
__device__ __forceinline__ bool has_pieces_ahead(batch const& b) {
  read_span const& span = b.span;
  if (b.chunks == nullptr || !prefetch::pieces_by_pages(span.end - span.begin, span.page_bytes()))
    return false;
  prefetch::strides const& noted = b.chunks->pieces;
  return noted.entered != 0 && noted.begin == span.begin && b.chunks->reads.version == span.version;
}

/// The lane's page of the next pieces of a series. Lane i has the first page of piece i + 1, and
/// lane 16 + i its last page, if that is another.
struct piece_page {
  static constexpr unsigned pieces = warp_size / 2;
  static_assert(prefetch::most_pieces_entered <= pieces);

  std::uint64_t page = 0;
  bool wanted = false;

  __device__ __forceinline__ piece_page(read_span const& span, prefetch::strides const& s) {
    unsigned const number = lane_id() % pieces;
    if (number >= s.entered) return;
    std::uint64_t const begin = s.begin + (number + 1) * s.distance;
    std::uint64_t const first = begin >> span.page_shift;
    bool const is_first = lane_id() < pieces;
    page = is_first ? first : (begin + s.length - 1) >> span.page_shift;
    wanted = (is_first || page != first) && page <= (span.size - 1) >> span.page_shift;
  }
};

/// The pages among those `wanted` that the cache may have. All lanes of a warp call, each with its
/// page.
__device__ __forceinline__ std::uint32_t may_be_cached(fs_ref const& fs, std::uint64_t version,
                                                       std::uint32_t wanted, std::uint64_t page) {
  constexpr unsigned at_once = 8;  // loads under way
  std::uint32_t cached = 0;
  GPUFS_ROLLED
  while (wanted != 0) {
    std::uint64_t pages[at_once];
    unsigned from[at_once];
    GPUFS_UNROLL
    for (unsigned i = 0; i < at_once; ++i) {
      from[i] = wanted != 0 ? lowest_lane(wanted) : from[i == 0 ? 0 : i - 1];
      pages[i] = warp_broadcast(page, static_cast<int>(from[i]));
      wanted &= wanted - 1;
    }
    std::uint32_t const had = cache::may_have_each(fs.cache, version, pages);
    GPUFS_UNROLL
    for (unsigned i = 0; i < at_once; ++i)
      if ((had >> i & 1) != 0) cached |= 1u << from[i];
  }
  return cached;
}

/// Enters the next pages of the series that `b` belongs to, if the cache does not have them, and
/// requests what no file window has. All lanes of the group's first warp call. If they call before
/// the page that the group brings in itself is published, callers that share it find these pages,
/// and wait for them. Waits for nothing but locks of buckets. Pages that find no frame or channel
/// are left out, and all are if others wait in the frame line. Leaves one entry per lane in
/// `*entry`. Returns when it entered pages, of device_clock_ns(); then the group owes them, and
/// read_pieces_ahead() must follow. Returns 0 if there are none.
GPUFS_LIBRARY_STAGE std::uint64_t enter_ahead(fs_ref const* __restrict__ handle, batch const b,
                                              source::fill* entry) {
  fs_ref const& fs = *handle;
  piece_page const ahead(b.span, b.chunks->pieces);
  std::uint64_t const line = cache::line_state(*fs.cache.line).load(memory_order_relaxed);
  std::uint64_t const any_windows = source::load_any_windows(fs);
  std::uint32_t const all = __ballot_sync(all_lanes, ahead.wanted);
  std::uint32_t const cached = may_be_cached(fs, b.span.version, all, ahead.page);
  if (__all_sync(all_lanes, cache::is_empty(line)) == 0) return 0;
  bool const wants = ((all & ~cached) >> lane_id() & 1) != 0;
  source::page_name const name = b.span.name(ahead.page);
  std::uint64_t window = 0;
  if (wants && any_windows != 0)
    window =
        source::window_address(handle, name.version, name.page << b.span.page_shift, name.expected);
  handle::channel_pool_ref const& pool = fs.channels.page;
  ring::channel own;
  bool const has_channel = ring::try_channels(fs, pool, warp_number() * pool.spacing % pool.count,
                                              2, wants && window == 0, own);
  entry_attempt const a =
      enter_each(fs, b.seat, wants && (window != 0 || has_channel), name.version, name.page);
  if (has_channel && !a.entered) ring::return_channel(pool, own, true);  // never used
  bool const sends = a.entered && window == 0;
  ring::submit_each(fs, sends, sends ? source::page_request(fs, name, own, 0) : rpc::request{});
  source::fill mine;
  auto const frame = static_cast<std::uint32_t>(a.taken.frame);
  if (a.entered)
    mine = window != 0 ? source::fill::by_window(frame, window, name.expected)
                       : source::fill::by_channel(frame, own);
  *entry = mine;
  auto const evicted = count_lanes(__ballot_sync(all_lanes, a.taken.evicted));
  auto const requests = count_lanes(__ballot_sync(all_lanes, sends));
  auto const entered = count_lanes(__ballot_sync(all_lanes, a.entered));
  if (lane_id() == 0) {
    handle::add(fs, handle::counter::evictions, evicted);
    handle::add(fs, handle::counter::requests, requests);
    handle::add(fs, handle::counter::read_requests, requests);
    handle::add(fs, handle::counter::pages_ahead, entered);
  }
  __syncwarp();
  return entered != 0 ? most<std::uint64_t>(device_clock_ns(), 1) : 0;
}

/// Waits for the answers to the requests of enter_ahead(), which came at `since`. So callers that
/// wait for these pages do not wait longer than this group may. All lanes of the group's first warp
/// call. Returns the pages to be moved. If there are none, it has ended those that failed. An error
/// of theirs is no error of the read, which does not want them yet.
GPUFS_LIBRARY_STAGE std::uint32_t await_ahead(fs_ref const* __restrict__ handle, batch const b,
                                              source::fill* entry, std::uint64_t since) {
  source::fill mine = *entry;
  piece_page const ahead(b.span, b.chunks->pieces);
  prefetch::readahead none(*handle, nullptr);
  settle_answers(*handle, b, none, mine, b.span.name(ahead.page), since);
  *entry = mine;
  __syncwarp();
  std::uint32_t const moving = __ballot_sync(all_lanes, mine.got != 0);
  if (moving == 0) end_batch(handle, b, entry);
  return moving;
}

/// Brings in the pages that enter_ahead() has entered. All threads of the group call, after a
/// barrier behind the read of the piece; `own` is where the entries are if the group is a tile, and
/// `since` counts in its first warp.
/// Begins and ends with a barrier.
template <class Group>
GPUFS_STAGE void read_pieces_ahead(fs_ref const* __restrict__ handle, Group const& group,
                                   batch const b, typename group_ops<Group>::entries& own,
                                   std::uint64_t since) {
  using ops = group_ops<Group>;
  bool const chief = ops::warp(group) == 0;
  source::fill* const entry = ops::home(own);
  batch_step step;
  if (chief) step.moving = await_ahead(handle, b, entry, since);
  step = ops::share(group, step);
  if (ops::warp(group) < ops::warps(group)) {
    read_span frames_only = b.span;
    frames_only.buffer = nullptr;
    move_pages(handle, group, frames_only, 0, step.moving, own);
  }
  ops::sync(group);
  if (chief && step.moving != 0) end_batch(handle, b, entry);
  ops::sync(group);
}

}  // namespace gpufs::io
