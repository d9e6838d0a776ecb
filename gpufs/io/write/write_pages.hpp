// The steps of a gwrite: opens write buffers, copies bytes to frames and buffers, posts pages.
#pragma once

#include <gpufs/base/copy.hpp>
#include <gpufs/dirty/write_buffer.hpp>
#include <gpufs/file/shared_file.hpp>
#include <gpufs/io/group.hpp>
#include <gpufs/io/read/enter_page.hpp>
#include <gpufs/io/write/write_page.hpp>
#include <gpufs/ring/submit.hpp>
#include <gpufs/source/pull_gate.hpp>

#include <cerrno>
#include <cstdint>

namespace gpufs::io {

using namespace base;

/// Bytes [begin, end) of a file version that a gwrite writes, and their source.
struct write_span {
  std::byte const* source;
  std::uint64_t begin;
  std::uint64_t end;
  std::uint64_t version;
  std::int32_t fd;
  std::uint32_t write_index;
  std::uint32_t page_shift;
  bool once;  ///< O_GWRONCE: no caller reads the pages, so frames need no bytes

  __device__ std::uint64_t page_bytes() const { return std::uint64_t(1) << page_shift; }
  /// The page's name for a fetch. Pages of written files are cached in full.
  __device__ source::page_name name(std::uint64_t page) const {
    return {version, page, fd, page_bytes(), true};
  }
  /// The part of the page that is written.
  __device__ rpc::byte_range range(std::uint64_t page) const {
    std::uint64_t const start = page << page_shift;
    std::uint64_t const to = least(end - start, page_bytes());
    return {static_cast<std::uint32_t>(begin > start ? begin - start : 0),
            static_cast<std::uint32_t>(to)};
  }
};

/// Zeros bytes [begin, end) of a frame. Orders the stores of all lanes before later ones of lane 0.
/// All lanes of a warp call.
__device__ __forceinline__ void zero_frame(std::byte* frame, std::uint64_t begin,
                                           std::uint64_t end) {
  std::uint64_t const from = begin / 16 + (begin % 16 != 0 ? 1 : 0);
  std::uint64_t const to = end / 16;
  for (std::uint64_t b = begin + lane_id(); b < end && b < from * 16; b += warp_size)
    frame[b] = std::byte{0};
  for (std::uint64_t i = from + lane_id(); i < to; i += warp_size)
    reinterpret_cast<uint4*>(frame)[i] = uint4{0, 0, 0, 0};
  for (std::uint64_t b = most(to, from) * 16 + lane_id(); b < end; b += warp_size)
    frame[b] = std::byte{0};
  __syncwarp();
}

/// Brings in a page that this warp has entered and fills, with the bytes that the host file has.
/// All lanes of the warp call. `e` gets the bytes that are there. Returns 0 or an error. With an
/// error the page has failed for all callers, and the frame is not pinned any more.
__device__ __forceinline__ std::int32_t fetch_page(fs_ref const& fs, source::page_name const& name,
                                                   source::fill& e) {
  e.error = ring::acquire_channel<ring::helps::yes>(fs, fs.channels.page, e.via);
  if (e.error == 0) {
    ring::submit(fs, source::page_request(fs, name, e.via, 0));
    if (lane_id() == 0) {
      handle::add(fs, handle::counter::requests);
      handle::add(fs, handle::counter::read_requests);
    }
    source::answer const got = source::await_answers(fs, lane_id() == 0, e.via, false);
    e.answered = warp_broadcast(static_cast<std::uint32_t>(got.answered)) != 0;
    __syncwarp();  // all lanes come after lane 0's acquire
    e = source::complete_page(fs.self, name, e, warp_broadcast(got.result));
    if (e.error == 0) {
      source::pull_gate gate(fs);
      if (!e.in_twin) gate.pass();
      warp_pull(cache::frame_bytes(fs.cache, e.frame), source::source_of(fs, e), 0,
                static_cast<std::uint32_t>(name.expected), e.got, {nullptr, 0, 0});
    }
    __syncwarp();  // the pull ends before the channel goes back
    if (lane_id() == 0) {
      handle::add(fs, e.in_twin ? handle::counter::bytes_dma : handle::counter::bytes_pulled,
                  e.got);
      ring::return_channel(fs.channels.page, e.via, e.answered);
    }
  }
  if (e.error != 0) source::fail_page(fs, e.frame, e.error);
  return e.error;
}

/// Returned by open_frame(): the page's buffer has no room for another range and must be written
/// back first, or the host has locked it.
inline constexpr std::int32_t list_is_full = -2;
inline constexpr std::int32_t host_reads = -3;

/// Locks a frame and opens its write buffer for the bytes `added`. If the frame has none it gets
/// `spare`, a buffer that the caller has taken, or another one if `spare` is -1. The caller has
/// pinned the frame, and it has a page of a written file. All lanes of a team call.
///
/// Returns the buffer. Or list_is_full, host_reads, or -1 with nothing locked: another caller has
/// the frame, or no buffer is free.
template <class Team = whole_warp>
__device__ __forceinline__ std::int64_t open_frame(fs_ref const& fs, std::uint32_t frame,
                                                   std::uint64_t version, std::uint64_t page,
                                                   rpc::byte_range added, std::int64_t spare = -1) {
  std::uint32_t has = 0;
  std::int32_t error = -1;
  if (Team::lane() == 0 && dirty::try_lock_frame(fs, frame, has)) {
    auto const opened =
        has == 0 ? dirty::open_result::opened : dirty::open_buffer(fs, has - 1, added);
    error = opened == dirty::open_result::opened         ? 0
            : opened == dirty::open_result::list_is_full ? list_is_full
                                                         : host_reads;
    if (error != 0) dirty::unlock_frame(fs, frame, has);
  }
  error = Team::broadcast(error);
  has = Team::broadcast(has);
  if (error != 0) return error;
  if (has != 0) return std::int64_t(has) - 1;
  std::int64_t const buffer =
      spare >= 0 ? spare : dirty::take_buffer(fs, cache::line_wait<Team>(*fs.writes.line));
  if (Team::lane() == 0) {
    if (buffer < 0) {
      dirty::unlock_frame(fs, frame, 0);
    } else {
      dirty::attach_buffer(fs, static_cast<std::uint32_t>(buffer), frame, version, page);
    }
  }
  return buffer;
}

/// Posts the ranges that were added to a page's buffer. Their bytes are in the frame and in the
/// buffer that open_frame() opened. Then raises the file's size to byte `end`, where they end,
/// before the page can leave the cache (see fill_for_write()). One thread calls. If the bytes of
/// `block` are all there, write-back takes the page at once.
__device__ __forceinline__ void post_added(fs_ref const& fs, std::uint32_t buffer,
                                           std::uint32_t write_index, std::uint64_t end,
                                           rpc::byte_range block = {0, 0}) {
  dirty::hand_over(fs, buffer, block);
  dirty::post_buffer(fs, buffer);
  atomic_ref<std::uint64_t, scope::device>(fs.writes.files[write_index - 1].size)
      .fetch_max(end, memory_order_relaxed);
}

/// Adds a range of a page to the bytes to be written and posts it, as post_added().
__device__ __forceinline__ void post_range(fs_ref const& fs, std::uint32_t buffer,
                                           std::uint32_t write_index, std::uint64_t page_begin,
                                           rpc::byte_range range, rpc::byte_range block = {0, 0}) {
  dirty::add_range(fs, buffer, range);
  post_added(fs, buffer, write_index, page_begin + range.end, block);
}

/// Bytes that a warp moves at a time. The warps share a batch in these units.
inline constexpr std::uint32_t write_piece = 4096;

/// Copies this warp's share of a batch to frames and write buffers. Lane i has page first + i in
/// `mine`. All lanes of a warp call.
GPUFS_LIBRARY_STAGE void copy_batch(fs_ref const* __restrict__ handle, write_span const span,
                                    std::uint64_t first, std::uint32_t ready, write_page const mine,
                                    unsigned warp, unsigned warps) {
  fs_ref const& fs = *handle;
  std::uint32_t turn = 0;
  for_each_lane(ready, [&](unsigned i) {
    std::uint64_t const page = first + i;
    std::byte* const frame = cache::frame_bytes(fs.cache, warp_broadcast(mine.frame, i));
    std::byte* const buffer = dirty::buffer_bytes(fs, warp_broadcast(mine.buffer, i));
    rpc::byte_range const r = span.range(page);
    std::byte const* const from =
        span.source + static_cast<std::int64_t>((page << span.page_shift) - span.begin);
    for (std::uint32_t at = r.begin; at < r.end; ++turn) {
      std::uint32_t const next = (at / write_piece + 1) * write_piece;
      std::uint32_t const to = least(next, r.end);
      if (turn % warps == warp) {
        if (span.once) {
          warp_copy(buffer + at, from + at, to - at);
        } else {
          // gmsync writes bytes that are in the frame already. A second store of them could undo
          // stores of other threads.
          if (from != frame) warp_copy(frame + at, from + at, to - at);
          __syncwarp();  // the next copy reads bytes that other lanes stored
          warp_copy(buffer + at, frame + at, to - at);
        }
      }
      at = to;
    }
  });
}

/// Posts the pages of a batch and releases them. Lane i has page first + i in `mine`. All lanes of
/// the group's first warp call, after a barrier behind copy_batch().
GPUFS_LIBRARY_STAGE void post_batch(fs_ref const* __restrict__ handle, write_span const span,
                                    std::uint64_t first, write_page const mine) {
  fs_ref const& fs = *handle;
  __syncwarp();  // orders a tile's copies, since its vote is no barrier
  bool const held = mine.status == write_status::ready || mine.status == write_status::filling;
  rpc::byte_range const r = held ? span.range(first + lane_id()) : rpc::byte_range{0, 0};
  if (held)
    post_range(fs, mine.buffer, span.write_index, (first + lane_id()) << span.page_shift, r);
  auto const hits = count_lanes(__ballot_sync(all_lanes, mine.status == write_status::ready));
  if (lane_id() == 0) handle::count(fs, span.fd, handle::file_counter::hits, hits);
  if (held) {
    dirty::unlock_frame(fs, mine.frame, mine.buffer + 1);
    cache::frame_header& h = fs.cache.headers[mine.frame];
    if (mine.status == write_status::filling) {
      cache::publish(h, static_cast<std::uint32_t>(span.page_bytes()));
    } else {
      cache::unpin(h);
    }
    handle::count(fs, span.fd, handle::file_counter::bytes_written, r.end - r.begin);
  }
  __syncwarp();
}

}  // namespace gpufs::io
