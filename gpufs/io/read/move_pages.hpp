// Moves the bytes of a batch into the caller's buffer: from a source through a frame, or from a
// frame.
#pragma once

#include <gpufs/io/group.hpp>
#include <gpufs/io/read/read_span.hpp>
#include <gpufs/source/pull_gate.hpp>
#include <gpufs/source/staged.hpp>

#include <cstdint>

namespace gpufs::io {

using namespace base;

/// The smallest useful slice of a page, in bytes. With smaller slices more warps are not faster.
inline constexpr std::uint64_t smallest_slice = 4096;

/// The number of warps that share a page when `pages` are left to read or move. 1 means that each
/// warp takes pages of its own.
__device__ __forceinline__ unsigned team_size(read_span const& span, std::uint64_t pages,
                                              unsigned warps) {
  std::uint64_t const useful = span.page_bytes() / smallest_slice;
  if (useful <= 1) return 1;
  std::uint64_t const available = pages < warps ? warps / pages : 1;
  std::uint64_t const size = least(useful, available);
  return static_cast<unsigned>(most<std::uint64_t>(size, 1));
}

/// The longest slice, in bytes, that a warp pulls before it takes the next one. It is short so that
/// a late warp finds less to do.
inline constexpr std::uint64_t longest_slice = 16384;

struct slice {
  std::uint32_t begin;
  std::uint32_t end;
};

/// The share of member `m` of `n` in [begin, end), cut at multiples of 16 bytes.
__device__ __forceinline__ slice slice_of(std::uint32_t begin, std::uint32_t end, unsigned m,
                                          unsigned n) {
  std::uint32_t const from = begin / 16 * 16;
  std::uint32_t const step = ((end - from + n - 1) / n + 15) / 16 * 16;
  std::uint32_t const lo = from + m * step;
  std::uint32_t const hi = lo + step;
  return {lo < begin ? begin : lo > end ? end : lo, least(hi, end)};
}

/// Copies a member's slice of the part that the span covers. The page is ready and pinned. All
/// lanes of a warp call.
__device__ __forceinline__ void copy_slice(fs_ref const& fs, read_span const& span,
                                           std::uint64_t page, std::uint32_t frame,
                                           std::uint32_t got, unsigned member, unsigned team) {
  page_target const t = span.target(page, got);
  slice const s = slice_of(t.begin, t.end, member, team);
  if (s.begin < s.end)
    warp_copy(t.base + s.begin, cache::frame_bytes(fs.cache, frame) + s.begin, s.end - s.begin);
}

/// Moves a member's slice of a page into the caller's buffer: from the frame, or from the page's
/// source through the frame. Then it settles the bytes stored to the frame. All lanes of a warp
/// call, with the page's entry.
__device__ __forceinline__ void move_slice(fs_ref const& fs, source::pull_gate& gate,
                                           read_span const& span, std::uint64_t page,
                                           source::fill const& e, unsigned member, unsigned team) {
  if (e.status == source::page_status::hit) {
    copy_slice(fs, span, page, e.frame, e.got, member, team);
    return;
  }
  slice const s = slice_of(0, std::uint32_t{1} << span.page_shift, member, team);
  if (s.begin >= s.end) return;
  std::byte* const frame = cache::frame_bytes(fs.cache, e.frame);
  if (!e.in_twin) gate.pass();
  warp_pull(frame, source::source_of(fs, e), s.begin, s.end, e.got, span.target(page, e.got));
  settle_frame(frame, s.begin, s.end, all_lanes, lane_id(), warp_size);
}

/// Moves the bytes of the pages whose bits are set in `moving`. All lanes of the group's full warps
/// call; each warp takes the next slice. `own` has a tile's entries, one per lane.
template <class Group>
GPUFS_STAGE void move_pages(fs_ref const* __restrict__ handle, Group const& group,
                            read_span const span, std::uint64_t first, std::uint32_t moving,
                            typename group_ops<Group>::entries const own) {
  using ops = group_ops<Group>;
  if (moving == 0) return;
  auto const pages = count_lanes(moving);
  auto const slices =
      static_cast<unsigned>((span.page_bytes() + longest_slice - 1) / longest_slice);
  unsigned const shared = team_size(span, pages, ops::warps(group));
  unsigned const team = most(shared, slices);  // slices per page
  source::pull_gate gate(*handle);
  unsigned unit = ~0u;
  while ((unit = ops::next_unit(unit)) < pages * team) {
    int const i = lane_of_rank(moving, unit / team);
    move_slice(*handle, gate, span, first + static_cast<unsigned>(i), ops::look(own, i),
               unit % team, team);
  }
}

/// The same for a batch of one page, by one warp. `entry` is lane 0's.
GPUFS_LIBRARY_STAGE void move_page(fs_ref const* __restrict__ handle, read_span const span,
                                   std::uint64_t page, source::fill const entry) {
  source::pull_gate gate(*handle);
  move_slice(*handle, gate, span, page, warp_broadcast(entry, 0), 0, 1);
  __syncwarp();  // the bytes of all lanes are settled
}

}  // namespace gpufs::io
