// Bytes of a batch on their way into the caller's buffer: out of staging through the frame, or out
// of a frame that was there.
#pragma once

#include <gpufs/cache/pull_gate.hpp>
#include <gpufs/io/fetch.hpp>
#include <gpufs/io/group.hpp>
#include <gpufs/io/read_span.hpp>

#include <cstdint>

namespace gpufs::detail {

/// Bytes of a page below which more warps do not move it faster.
inline constexpr std::uint64_t smallest_slice = 4096;

/// How many warps share a page when `pages` are wanted: 1 means that each warp takes pages of its
/// own.
__device__ __forceinline__ unsigned team_size(read_span const& span, std::uint64_t pages,
                                              unsigned warps) {
  std::uint64_t const useful = span.page_bytes() / smallest_slice;
  std::uint64_t const available = pages < warps ? warps / pages : 1;
  std::uint64_t const size = useful < available ? useful : available;
  return size < 1 ? 1 : static_cast<unsigned>(size);
}

/// Longest slice that a warp pulls before it asks for the next one: small enough that a warp which
/// comes late has less to do.
inline constexpr std::uint64_t longest_slice = 16384;

struct slice {
  std::uint64_t begin;
  std::uint64_t end;
};

/// Member `m` of `n`'s share of [begin, end), cut at multiples of 16.
__device__ __forceinline__ slice slice_of(std::uint64_t begin, std::uint64_t end, unsigned m,
                                          unsigned n) {
  std::uint64_t const from = begin / 16 * 16;
  std::uint64_t const step = ((end - from + n - 1) / n + 15) / 16 * 16;
  std::uint64_t const lo = from + m * step;
  std::uint64_t const hi = lo + step;
  return {lo < begin ? begin : lo > end ? end : lo, hi > end ? end : hi};
}

/// Copies a member's slice of what is wanted of a page that is there and pinned.
__device__ __forceinline__ void copy_slice(fs_ref const& fs, read_span const& span,
                                           std::uint64_t page, std::uint32_t frame,
                                           std::uint64_t got, unsigned member, unsigned team) {
  page_target const t = span.target(page, got);
  slice const s = slice_of(t.begin, t.end, member, team);
  if (s.begin < s.end)
    warp_copy(t.base + s.begin, frame_bytes(fs.cache, frame) + s.begin, s.end - s.begin);
}

/// Moves the bytes of the pages whose bits are set in `moving`, and settles what comes into frames;
/// the group's warps take slices in turn. All full warps of the group call; `own`: the tile's
/// entries, one per lane.
template <class Group>
GPUFS_STAGE void move_pages(fs_ref const* handle, Group const& group, read_span const span,
                            std::uint64_t first, std::uint32_t moving, page_entry const own) {
  using ops = group_ops<Group>;
  fs_ref const& fs = *handle;
  if (moving == 0) return;
  auto const pages = static_cast<unsigned>(__popc(moving));
  auto const slices =
      static_cast<unsigned>((span.page_bytes() + longest_slice - 1) / longest_slice);
  unsigned const shared = team_size(span, pages, ops::warps(group));
  unsigned const team = shared > slices ? shared : slices;  // the slices that a page is moved in
  pull_gate gate(fs);
  unsigned unit = ~0u;
  while ((unit = ops::next_unit(unit)) < pages * team) {
    int const i = lane_of_rank(moving, unit / team);
    page_entry const e = ops::look(own, i);
    std::uint64_t const page = first + static_cast<unsigned>(i);
    if (e.status == page_status::hit) {
      copy_slice(fs, span, page, e.frame, e.got, unit % team, team);
    } else {
      slice const s = slice_of(0, span.page_bytes(), unit % team, team);
      if (s.begin >= s.end) continue;
      std::byte* const frame = frame_bytes(fs.cache, e.frame);
      if ((e.chunk_offset & in_twin) == 0) gate.pass();
      warp_pull(frame, source_of(fs, e), s.begin, s.end, e.got, span.target(page, e.got));
      settle_frame(frame, s.begin, s.end, all_lanes, lane_id(), warp_size);
    }
  }
}

}  // namespace gpufs::detail
