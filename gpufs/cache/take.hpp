// Frames for new pages: takes victims in the policy's order and removes them from the page table.
#pragma once

#include <gpufs/cache/lane_table.hpp>
#include <gpufs/cache/replacement/seat_queues.hpp>

#include <cstdint>
#include <type_traits>

namespace gpufs::cache {

using namespace base;

/// The frame that a lane got.
struct taken_frame {
  std::int64_t frame;  ///< owned by the caller, evicting, not in the page table; or -1
  bool evicted;        ///< it held a page
};

/// Passes over every frame with a pin.
struct keep_pins {
  __device__ __forceinline__ bool operator()(std::uint32_t) const { return false; }
};

/// Takes a frame for each lane with `wants`. All lanes of the team call. Under replacement::lra the
/// frame comes from the seat's queue, least recently allocated first. Under other policies, or if
/// the queue has none, it comes from the sweep. Frames with pins are passed over, unless
/// unpin(frame) takes a ready frame's only pin back. It may take back that pin only if no caller
/// needs it, and returns whether it has. Each lane calls it for its own frame.
///
/// Looks at a bounded number of frames and never waits. A caller that gets none finishes its pages
/// before it asks again. `seat` belongs to the caller, or is -1.
template <class Team = whole_warp, class Unpin = keep_pins>
__device__ __forceinline__ taken_frame take_each(handle::page_cache_ref const& c, std::int32_t seat,
                                                 bool wants, Unpin unpin = {}) {
  constexpr unsigned most_rounds = 64;  // per source: queue, sweep
  taken_frame mine{-1, false};
  bool own = has_queues(c.policy) && seat >= 0;
  std::uint32_t first_drawn = no_frame;
  GPUFS_ROLLED
  for (unsigned round = 0; round < most_rounds; ++round) {
    bool const seeks = wants && mine.frame < 0;
    unsigned const seekers = Team::ballot(seeks);
    if (seekers == 0) break;
    unsigned const n = count_lanes(seekers);
    unsigned const rank = rank_in(seekers, Team::lane());
    candidate_frame candidate{false, 0};
    if (own) {
      std::uint32_t drawn = no_frame;
      bool const none = !lra_candidate<Team>(c, seat, seeks, n, rank, candidate, drawn);
      // The first frame again: all of the queue's frames are pinned.
      bool const again = drawn != no_frame && drawn == first_drawn;
      if (first_drawn == no_frame) first_drawn = drawn;
      if (none || again || round + 1 == most_rounds) {
        own = false;
        round = 0;
        continue;
      }
    }
    if (!own) candidate = sweep_candidate<Team>(c, seeks, n, rank);
    if (!candidate.valid) continue;
    frame_header& h = c.headers[candidate.frame];
    phase was = claim(h);
    if (was == phase::evicting && is_pinned_once(h) && unpin(candidate.frame)) was = claim(h);
    if (was != phase::evicting) mine = {candidate.frame, was == phase::ready};
  }
  Team::sync();
  if constexpr (std::is_same_v<Team, one_lane>) {
    if (mine.evicted) lane_remove(c, static_cast<std::uint32_t>(mine.frame));
  } else {
    remove_each(c, mine.evicted, static_cast<std::uint32_t>(mine.frame));
  }
  return mine;
}

/// Makes room in the page's bucket: evicts one of its ready pages without pins. This serves the
/// rare bucket that is full. Any single thread calls. Returns whether a page was evicted. `unpin`
/// as in take_each().
template <class Unpin>
__device__ __forceinline__ bool evict_from_bucket(handle::page_cache_ref const& c,
                                                  std::uint64_t version, std::uint64_t page,
                                                  Unpin const& unpin) {
  page_location const at = locate(c, version, page);
  return lane_visit(c, at.bucket, at.home(), [&](unsigned, std::uint64_t entry) {
    if (entry == 0) return false;
    auto const frame = static_cast<std::uint32_t>(entry) - 1;
    frame_header& h = c.headers[frame];
    phase was = claim(h);
    if (was == phase::evicting && is_pinned_once(h) && unpin(frame)) was = claim(h);
    if (was == phase::evicting) return false;
    if (was == phase::ready) lane_remove(c, frame);
    release_evicting(h);
    return was == phase::ready;
  });
}

}  // namespace gpufs::cache
