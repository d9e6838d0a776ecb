// Long reads of a block whose chunks are there: each warp brings in pages of its own. One warp that
// enters, settles and publishes all pages takes longer than their bytes take to cross the bus.
#pragma once

#include <gpufs/io/read/begin_batch.hpp>
#include <gpufs/io/read/end_batch.hpp>
#include <gpufs/io/read/move_pages.hpp>

#include <cstdint>

namespace gpufs::io {

using namespace base;

/// With fewer pages the first warp manages them alone: barriers would cost what is gained.
inline constexpr unsigned least_pages_by_warps = 2 * source::batch_pages;

/// The part of the frames, 1/n, that a read may take at once in this way.
inline constexpr unsigned part_of_frames_by_warps = 8;

/// Whether it is worth to look at the chunks: the group is a block, and a read has `left` pages
/// from `b` on, of which those of `b` are absent. The block has full warps only, since all of them
/// must come to the same result. All threads call, behind any_missing() and before share() or
/// drop_missing().
template <class Group>
__device__ __forceinline__ bool has_pages_for_warps(Group const& group, batch const& b,
                                                    missing_pages const& found,
                                                    std::uint64_t left) {
  return is_block<Group> && left >= least_pages_by_warps && b.chunks != nullptr &&
         group.size() % warp_size == 0 && group.size() > warp_size &&
         group_ops<Group>::take_missing(found).absent == all_lanes;
}

/// How many of the `left` pages of a read, from b.first on, the block's warps can bring in, each
/// some of them. Returns 0 if the chunks of the seat have too few of them, and if others have
/// brought in pages of this stream. Returns 0 as well if `b` is the first batch of a read that
/// begins with a jump. All lanes of all warps call, between barriers, and no warp changes the
/// chunks meanwhile. So all get the same result.
GPUFS_LIBRARY_STAGE unsigned pages_by_warps(fs_ref const* __restrict__ handle, batch const b,
                                            std::uint64_t left, unsigned warps) {
  prefetch::readahead chunks(*handle, b.chunks);
  read_span const& span = b.span;
  // Pages of others would cost frames for nothing.
  if (chunks.reads().version == span.version && chunks.reads().shared != 0) return 0;
  bool const starts = b.first == span.first_page();
  if (starts && prefetch::kind_of(chunks.reads(), span.version, span.begin, span.page_bytes()) ==
                    prefetch::read_kind::jump)
    return 0;
  prefetch::wanted const w = as_wanted(b);
  std::uint64_t const covered = chunks.covered_end(w) - w.begin;
  std::uint64_t pages = (covered + span.page_bytes() - 1) >> span.page_shift;
  pages = least(pages, left);
  pages = least<std::uint64_t>(pages, warps * warp_size);
  pages = least<std::uint64_t>(pages, handle->cache.frame_count / part_of_frames_by_warps);
  return pages < least_pages_by_warps ? 0 : static_cast<unsigned>(pages);
}

/// The pages from `b` on that the warps of the group can bring in, each some of them, or 0: then no
/// warp looks at the chunks any more. As has_pages_for_warps(), for all threads.
template <class Group>
__device__ __forceinline__ unsigned to_share_out(fs_ref const* handle, Group const& group,
                                                 batch const& b, missing_pages const& found,
                                                 std::uint64_t left) {
  using ops = group_ops<Group>;
  if (!has_pages_for_warps(group, b, found, left)) return 0;
  unsigned const pages = pages_by_warps(handle, b, left, ops::warps(group));
  if (pages == 0) ops::sync(group);
  return pages;
}

/// The pages that fall to warp `warp` of a block.
__device__ __forceinline__ batch share_of(batch const& whole, unsigned warp, unsigned warps) {
  unsigned const each = (whole.pages + warps - 1) / warps;
  unsigned const from = least(warp * each, whole.pages);
  batch own = whole;
  own.first = whole.first + from;
  own.pages = least(each, whole.pages - from);
  return own;
}

/// Finds the chunks of the warp's pages. All lanes of the warp call; other warps of the block do
/// the same at the same time, and none changes the chunks. Leaves in `*entry` where the lane's page
/// comes from. Returns whether all pages have a chunk.
GPUFS_LIBRARY_STAGE bool find_own(fs_ref const* __restrict__ handle, batch const own,
                                  source::fill* entry) {
  prefetch::readahead chunks(*handle, own.chunks, prefetch::one_of_many);
  bool const wants = lane_id() < own.pages;
  source::page_name const name = own.span.name(own.first + lane_id());
  std::uint64_t const line = cache::line_state(*handle->cache.line).load(memory_order_relaxed);
  std::uint64_t const begin = name.page << own.span.page_shift;
  prefetch::chunk_position const at =
      chunks.find(as_wanted(own), wants, begin, begin + name.expected);
  source::fill mine;
  if (at.found) mine = source::fill::by_chunk(0, at.via, at.offset);
  *entry = mine;
  return __all_sync(all_lanes, (at.found || !wants) && cache::is_empty(line)) != 0;
}

/// Enters the pages of find_own() and waits for the answers of their chunks. All lanes of the warp
/// call; end_own() must follow. Waits for no page of another caller. Returns whether all pages have
/// their bytes. The chunks of a written file must not change meanwhile.
GPUFS_LIBRARY_STAGE bool begin_own(fs_ref const* __restrict__ handle, batch const own,
                                   source::fill* entry, std::uint64_t since) {
  fs_ref const& fs = *handle;
  source::fill mine = *entry;
  source::page_name const name = own.span.name(own.first + lane_id());
  bool const wants = mine.status == source::page_status::fetching;
  entry_attempt const a = enter_each(fs, own.seat, wants, name.version, name.page);
  mine.frame = static_cast<std::uint32_t>(a.taken.frame);
  if (!a.entered) mine = {};
  auto const evictions = count_lanes(__ballot_sync(all_lanes, a.taken.evicted));
  if (lane_id() == 0) handle::add(fs, handle::counter::evictions, evictions);
  prefetch::readahead chunks(fs, own.span.zero_filled ? own.chunks : nullptr,
                             prefetch::one_of_many);
  settle_answers(fs, own, chunks, mine, name, since);
  *entry = mine;
  __syncwarp();  // all lanes come after the acquires of the answers
  return __all_sync(all_lanes, !wants || mine.got != 0) != 0;
}

/// Settles the bytes that the warp has stored to the frames of the pages `moved`. All lanes call,
/// each with its page's entry.
__device__ __forceinline__ void settle_own(fs_ref const& fs, read_span const& span,
                                           source::fill const& mine, std::uint32_t moved) {
  constexpr unsigned at_once = 4;
  GPUFS_ROLLED
  while (moved != 0) {
    std::byte const* frames[at_once];
    unsigned from = lowest_lane(moved);
    GPUFS_UNROLL
    for (unsigned i = 0; i < at_once; ++i) {
      if (moved != 0) from = lowest_lane(moved);  // else the last one again
      frames[i] = cache::frame_bytes(fs.cache, warp_broadcast(mine.frame, static_cast<int>(from)));
      moved &= moved - 1;
    }
    settle_frames(frames, static_cast<std::uint32_t>(span.page_bytes()));
  }
}

/// Whether the page comes whole, and goes to the caller's buffer whole, at an aligned address.
__device__ __forceinline__ bool is_plain(read_span const& span, page_target const& target,
                                         std::uint32_t got) {
  return got == span.page_bytes() && got % 4096 == 0 && target.begin == 0 && target.end == got &&
         address(target.base) % 16 == 0;
}

/// Moves the bytes of the pages `moving` into their frames and the caller's buffer, two at a time.
/// Does not settle them. All lanes of a warp call, each with its page's entry.
__device__ __forceinline__ void pull_own(fs_ref const& fs, batch const& own,
                                         source::fill const& mine, std::uint32_t moving) {
  source::pull_gate gate(fs);
  std::uint32_t const page = std::uint32_t{1} << own.span.page_shift;
  page_pull former{};  // a plain page that waits for another; target null: none
  auto const pull = [&](page_pull const& p, page_target const& target, std::uint32_t got) {
    warp_pull(p.frame, p.staging, 0, page, got, target);
  };
  for_each_lane(moving, [&](unsigned i) {
    source::fill const e = warp_broadcast(mine, i);
    if (!e.in_twin) gate.pass();
    page_target const target = own.span.target(own.first + i, e.got);
    page_pull const p{source::source_of(fs, e), cache::frame_bytes(fs.cache, e.frame), target.base};
    if (!is_plain(own.span, target, e.got)) {
      pull(p, target, e.got);
    } else if (former.target == nullptr) {
      former = p;
    } else {
      warp_pull_two(former, p, page);
      former.target = nullptr;
    }
  });
  if (former.target != nullptr) pull(former, {former.target, 0, page}, page);
}

/// Moves the bytes of the pages of begin_own(), and publishes them. All lanes of the warp call.
/// Returns whether they are all there.
GPUFS_LIBRARY_STAGE bool end_own(fs_ref const* __restrict__ handle, batch const own,
                                 source::fill* entry) {
  source::fill const mine = *entry;
  std::uint32_t const moving = __ballot_sync(all_lanes, mine.got != 0);
  pull_own(*handle, own, mine, moving);
  settle_own(*handle, own.span, mine, moving);
  __syncwarp();  // the bytes of all lanes are settled
  if (lane_id() == 0) handle::add(*handle, handle::counter::pages_by_warps, count_lanes(moving));
  return end_batch(handle, own, entry).none();
}

/// What the prefetcher does for these pages: notes how the read goes on, gives back the chunks
/// behind them, and requests the next ones. All lanes of the first warp call, behind a barrier
/// after which no other warp looks at the chunks.
GPUFS_LIBRARY_STAGE void go_on_by_warps(fs_ref const* __restrict__ handle, batch const whole) {
  prefetch::readahead chunks(*handle, whole.chunks);
  batch head = whole;
  head.pages = source::batch_pages;
  cover(*handle, head, chunks, all_lanes);
  chunks.entered(as_wanted(head), all_lanes);
  if (chunks.has_work(false)) chunks.look_ahead(as_wanted(whole), true, false);
}

/// Brings in the pages of pages_by_warps() and delivers their bytes. All threads of the block call,
/// after any_missing(). Returns whether all bytes are delivered, which is so behind its last
/// barrier. If not, the caller reads the pages in the usual way, and finds those in the cache that
/// are there. `since`: now, of device_clock_ns().
///
/// Warps that owe pages stand at a barrier at most with others that owe pages, too. None of them
/// waits for a page of another caller before it has published its own. So no waits form a circle.
template <class Group>
__device__ __forceinline__ bool read_by_warps(fs_ref const* handle, Group const& group,
                                              batch const& whole, std::uint64_t since) {
  using ops = group_ops<Group>;
  unsigned const warp = ops::warp(group);
  batch const own = share_of(whole, warp, ops::warps(group));
  bool const works = own.pages != 0;
  source::fill mine;
  bool all = !works || find_own(handle, own, &mine);
  bool begun = false;
  auto const begin = [&] {
    begun = works && all;
    if (begun) all = begin_own(handle, own, &mine, since);
  };
  // Whether a write has overtaken a chunk is seen when its pages are entered.
  bool const written = whole.span.zero_filled;
  if (written) begin();
  // Behind this barrier no warp looks at the seat's chunks but the first one.
  bool const good = !ops::any(group, !all);
  ops::drop_missing(group);
  if (warp == 0 && good) go_on_by_warps(handle, whole);
  if (!written && good) begin();
  if (begun) all = end_own(handle, own, &mine) && all;
  if (ops::any(group, !all || !good)) return false;
  if (group.thread_rank() == 0) {
    prefetch::wanted const w = as_wanted(whole);
    whole.chunks->reads.bring_in(w.begin, w.end);
  }
  return true;
}

}  // namespace gpufs::io
