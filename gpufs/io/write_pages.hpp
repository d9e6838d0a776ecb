// The steps of a gwrite: pages made ready to be written to, bytes put into frames and write
// buffers, pages posted.
#pragma once

#include <gpufs/cache/copy.hpp>
#include <gpufs/cache/pull_gate.hpp>
#include <gpufs/cache/write_buffer.hpp>
#include <gpufs/io/enter_page.hpp>
#include <gpufs/io/group.hpp>
#include <gpufs/io/shared_file.hpp>

#include <cerrno>
#include <cstdint>

namespace gpufs::detail {

/// Bytes [begin, end) of a file version that a gwrite writes, and where they come from.
struct write_span {
  std::byte const* source;
  std::uint64_t begin;
  std::uint64_t end;
  std::uint64_t uid;
  std::int32_t fd;
  std::uint32_t place;
  std::uint32_t page_shift;
  bool once;  ///< O_GWRONCE: nobody reads the pages, so that frames need not have their bytes

  __device__ std::uint64_t page_bytes() const { return std::uint64_t(1) << page_shift; }
  /// The bytes of a page that are written.
  __device__ rpc::byte_range range(std::uint64_t page) const {
    std::uint64_t const start = page << page_shift;
    std::uint64_t const to = end - start < page_bytes() ? end - start : page_bytes();
    return {static_cast<std::uint32_t>(begin > start ? begin - start : 0),
            static_cast<std::uint32_t>(to)};
  }
};

enum class write_status : std::uint32_t {
  none,
  ready,    ///< the frame is pinned and locked, its buffer open
  filling,  ///< the same, and the page is being filled by this gwrite: it must be published
  later,    ///< somebody else has what the page needs; nothing is held
  failed,   ///< `error` says why; nothing is held
};

struct write_page {
  write_status status = write_status::none;
  std::uint32_t frame = 0;
  std::uint32_t buffer = 0;
  std::int32_t error = 0;
};

/// Zeros bytes [begin, end) of a frame, and orders the stores of all lanes before what lane 0 does
/// next. All lanes of a warp call.
__device__ __forceinline__ void zero_frame(std::byte* frame, std::uint64_t begin,
                                           std::uint64_t end) {
  std::uint64_t const from = begin / 16 + (begin % 16 != 0 ? 1 : 0);
  std::uint64_t const to = end / 16;
  for (std::uint64_t b = begin + lane_id(); b < end && b < from * 16; b += warp_size)
    frame[b] = std::byte{0};
  for (std::uint64_t i = from + lane_id(); i < to; i += warp_size)
    reinterpret_cast<uint4*>(frame)[i] = uint4{0, 0, 0, 0};
  for (std::uint64_t b = (to > from ? to : from) * 16 + lane_id(); b < end; b += warp_size)
    frame[b] = std::byte{0};
  __syncwarp();
}

/// Brings in the page that this warp has entered, filling, with the bytes that the host's file has.
/// Returns 0, or an error: then the page has failed for all and the frame is not held any more.
__device__ __forceinline__ std::int32_t fetch_for_write(fs_ref const& fs, page_name const& name,
                                                        page_entry e) {
  e.error = acquire_channel(fs, fs.page_channels, e.via);
  if (e.error == 0) {
    submit(fs, page_request(fs, name, e.via, 0));
    if (lane_id() == 0) {
      count(fs, counter::requests);
      count(fs, counter::read_requests);
    }
    answer const got = await_answers(fs, lane_id() == 0, e.via);
    e.answered = warp_broadcast(static_cast<std::uint32_t>(got.answered));
    __syncwarp();  // all lanes come after lane 0's acquire
    e = complete_page(fs.self, name, e, warp_broadcast(got.result));
    if (e.error == 0) {
      pull_gate gate(fs);
      if ((e.chunk_offset & in_twin) == 0) gate.pass();
      warp_pull(frame_bytes(fs.cache, e.frame), source_of(fs, e), 0, name.expected, e.got,
                {nullptr, 0, 0});
    }
    __syncwarp();  // the pull is over before the channel goes
    if (lane_id() == 0) {
      count(fs, (e.chunk_offset & in_twin) != 0 ? counter::bytes_dma : counter::bytes_pulled,
            e.got);
      return_channel(fs.page_channels, e.via, e.answered != 0);
    }
  }
  if (e.error != 0) fail_page(fs, e.frame, e.error);
  return e.error;
}

/// Locks a frame that the caller has pinned and that holds a page of a written file, and opens a
/// write buffer of it for the bytes `added`. Returns the buffer, or -1 with nothing locked:
/// somebody else has the frame, or its buffer, or no buffer is to be had now. All lanes of a team
/// call.
template <class Team = whole_warp>
__device__ __forceinline__ std::int64_t open_frame(fs_ref const& fs, std::uint32_t frame,
                                                   std::uint64_t uid, std::uint64_t page,
                                                   rpc::byte_range added) {
  std::uint32_t has = 0;
  std::uint32_t ok = 0;
  if (Team::lane() == 0) {
    ok = try_lock_frame(fs, frame, has) ? 1 : 0;
    if (ok != 0 && has != 0 && !open_buffer(fs, has - 1, added)) {
      unlock_frame(fs, frame, has);
      ok = 0;
    }
  }
  ok = Team::broadcast(ok);
  has = Team::broadcast(has);
  if (ok == 0) return -1;
  if (has != 0) return std::int64_t(has) - 1;
  std::int64_t const buffer = take_buffer<Team>(fs);
  if (Team::lane() == 0) {
    if (buffer < 0) {
      unlock_frame(fs, frame, 0);
    } else {
      attach_buffer(fs, static_cast<std::uint32_t>(buffer), frame, uid, page);
    }
  }
  return buffer;
}

/// Adds bytes [range.begin, range.end) of a page, which are in the frame and in the buffer that
/// open_frame() has opened, to those that are to be written, and raises the file's size to cover
/// them: before the page can leave the cache, see ready_absent(). One thread calls.
__device__ __forceinline__ void post_range(fs_ref const& fs, std::uint32_t buffer,
                                           std::uint32_t place, std::uint64_t page_begin,
                                           rpc::byte_range range) {
  add_range(fs, buffer, range);
  post_buffer(fs, buffer);
  atomic_ref<std::uint64_t, scope::device>(fs.writes.files[place - 1].size)
      .fetch_max(page_begin + range.end, memory_order_relaxed);
}

/// Makes a page ready that is in the cache: `frame` is pinned. Keeps the pin if the page gets
/// ready.
__device__ __forceinline__ write_page ready_cached(fs_ref const& fs, write_span const& span,
                                                   std::uint64_t page, std::uint32_t frame) {
  std::int64_t const buffer = open_frame(fs, frame, span.uid, page, span.range(page));
  if (buffer >= 0) return {write_status::ready, frame, static_cast<std::uint32_t>(buffer), 0};
  if (lane_id() == 0) unpin_read(fs.cache.headers[frame]);
  __syncwarp();
  return {write_status::later, 0, 0, 0};
}

/// Makes a page ready that is not in the cache. Its old bytes are fetched only if some of them
/// stay.
__device__ __forceinline__ write_page ready_absent(fs_ref const& fs, write_span const& span,
                                                   std::int32_t slot, std::uint64_t page) {
  std::int64_t const taken =
      take_buffer(fs);  // first, so that nothing else is held if there is none
  if (taken < 0) return {write_status::later, 0, 0, 0};
  auto const buffer = static_cast<std::uint32_t>(taken);
  page_name const name{span.uid, page, span.fd, span.page_bytes(), true};
  page_entry const work = enter_page(fs, slot, name);
  std::int32_t error = 0;
  if (work.status == page_status::fetching) {
    // Whoever made the file longer by bytes of this page did so before the page could leave the
    // cache: the size says whether there are any.
    std::uint64_t size = 0;
    if (lane_id() == 0)
      size = atomic_ref<std::uint64_t, scope::device>(fs.writes.files[span.place - 1].size)
                 .load(memory_order_relaxed);
    size = warp_broadcast(size);
    std::uint64_t const start = page << span.page_shift;
    std::uint64_t const old = size <= start                      ? 0
                              : size - start < span.page_bytes() ? size - start
                                                                 : span.page_bytes();
    rpc::byte_range const r = span.range(page);
    bool const covered = r.begin == 0 && r.end >= old;
    if (!span.once && old != 0 && !covered) {
      error = fetch_for_write(fs, name, work);
    } else if (!span.once) {
      std::byte* const frame = frame_bytes(fs.cache, work.frame);
      zero_frame(frame, 0, r.begin);
      zero_frame(frame, r.end, span.page_bytes());
    }
    if (error == 0) {
      if (lane_id() == 0) {
        std::uint32_t had = 0;
        // Nobody else writes to a page that is being filled; take_buffer() may look at the frame's
        // last buffer for a moment.
        for (unsigned pause = 0; !try_lock_frame(fs, work.frame, had);) backoff(pause);
        attach_buffer(fs, buffer, work.frame, span.uid, page);
      }
      __syncwarp();
      return {write_status::filling, work.frame, buffer, 0};
    }
  }
  if (lane_id() == 0) {
    give_back_buffer(fs, buffer);
    if (work.status == page_status::hit || work.status == page_status::waiting)
      unpin_read(fs.cache.headers[work.frame]);
  }
  __syncwarp();
  return {error != 0 ? write_status::failed : write_status::later, 0, 0, error};
}

/// Makes a page ready to be written to, or says why not. Waits for nobody but the daemon. All lanes
/// of a warp call.
GPUFS_STAGE inline write_page ready_page(fs_ref const* handle, write_span const span,
                                         std::int32_t slot, std::uint64_t page) {
  fs_ref const& fs = *handle;
  lookup const found = find_and_pin(fs.cache, span.uid, page);
  if (found.result == lookup_result::absent) return ready_absent(fs, span, slot, page);
  if (found.result == lookup_result::hit) return ready_cached(fs, span, page, found.frame);
  if (lane_id() == 0) unpin_read(fs.cache.headers[found.frame]);
  __syncwarp();
  return {write_status::later, 0, 0, 0};
}

/// Bytes that a warp moves at a time; the bytes of a batch are shared out by these.
inline constexpr std::uint64_t write_piece = 4096;

/// Puts this warp's share of a batch into frames and write buffers. Lane i has page first + i in
/// `mine`. All lanes of a warp call.
GPUFS_STAGE inline void copy_batch(fs_ref const* handle, write_span const span, std::uint64_t first,
                                   std::uint32_t ready, write_page const mine, unsigned warp,
                                   unsigned warps) {
  fs_ref const& fs = *handle;
  std::uint64_t turn = 0;
  for (std::uint32_t left = ready; left != 0; left &= left - 1) {
    int const i = __ffs(static_cast<int>(left)) - 1;
    std::uint64_t const page = first + static_cast<unsigned>(i);
    std::byte* const frame = frame_bytes(fs.cache, warp_broadcast(mine.frame, i));
    std::byte* const buffer = buffer_bytes(fs, warp_broadcast(mine.buffer, i));
    rpc::byte_range const r = span.range(page);
    std::byte const* const from =
        span.source + static_cast<std::int64_t>((page << span.page_shift) - span.begin);
    for (std::uint64_t at = r.begin; at < r.end; ++turn) {
      std::uint64_t const next = (at / write_piece + 1) * write_piece;
      std::uint64_t const to = next < r.end ? next : r.end;
      if (turn % warps == warp) {
        if (span.once) {
          warp_copy(buffer + at, from + at, to - at);
        } else {
          // gmsync names bytes that are in the frame already: storing them again could undo what
          // others store there meanwhile.
          if (from != frame) warp_copy(frame + at, from + at, to - at);
          __syncwarp();  // what follows reads back what other lanes stored
          warp_copy(buffer + at, frame + at, to - at);
        }
      }
      at = to;
    }
  }
}

/// Posts the pages of a batch and lets go of them. Lane i has page first + i in `mine`. All lanes
/// of one warp of the group call, after a barrier behind copy_batch().
GPUFS_STAGE inline void post_batch(fs_ref const* handle, write_span const span, std::uint64_t first,
                                   write_page const mine) {
  fs_ref const& fs = *handle;
  __syncwarp();  // behind the copies of a tile, whose vote is no barrier
  bool const held = mine.status == write_status::ready || mine.status == write_status::filling;
  rpc::byte_range const r = held ? span.range(first + lane_id()) : rpc::byte_range{0, 0};
  if (held) post_range(fs, mine.buffer, span.place, (first + lane_id()) << span.page_shift, r);
  __syncwarp();
  if (held) {
    unlock_frame(fs, mine.frame, mine.buffer + 1);
    frame_header& h = fs.cache.headers[mine.frame];
    if (mine.status == write_status::filling) {
      publish(h, static_cast<std::uint32_t>(span.page_bytes()));
    } else {
      unpin(h);
    }
    count(fs, counter::bytes_written, r.end - r.begin);
  }
  __syncwarp();
}

}  // namespace gpufs::detail
