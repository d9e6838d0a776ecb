// Frames for new pages: victims in the policy's order, claimed and taken out of the page table.
#pragma once

#include <gpufs/cache/lane_table.hpp>
#include <gpufs/cache/lra.hpp>

#include <cstdint>
#include <type_traits>

namespace gpufs {

/// What a lane got.
struct taken_frame {
  std::int64_t frame;  ///< owned by the caller in phase evicting, out of the page table; or -1
  bool evicted;        ///< it held a page
};

/// Takes a frame for each lane that wants one: of the slot's queue (least recently allocated first)
/// under replacement::lra, else, or if the queue has none to give, by the sweep. Pinned frames are
/// passed over. All lanes of the team call. Looks at a bounded number of frames and never waits: a
/// caller that gets none finishes the pages it holds, if any, before it asks again. `slot`: owned
/// by the caller, or -1.
template <class Team = whole_warp>
__device__ __forceinline__ taken_frame take_each(page_cache_ref const& c, std::int32_t slot,
                                                 bool wants) {
  constexpr unsigned most_rounds = 64;  // of each kind
  taken_frame mine{-1, false};
  bool own = c.policy == replacement::lra && slot >= 0;
  GPUFS_ROLLED
  for (unsigned round = 0; round < most_rounds; ++round) {
    bool const seeks = wants && mine.frame < 0;
    unsigned const seekers = Team::ballot(seeks);
    if (seekers == 0) break;
    unsigned const n = static_cast<unsigned>(__popc(seekers));
    unsigned const rank = rank_in(seekers, Team::lane());
    candidate_frame candidate{false, 0};
    if (own &&
        (!lra_candidate<Team>(c, slot, seeks, n, rank, candidate) || round + 1 == most_rounds)) {
      own = false;
      round = 0;
      continue;
    }
    if (!own) candidate = sweep_candidate<Team>(c, seeks, n, rank);
    if (!candidate.valid) continue;
    phase const was = claim(c.headers[candidate.frame]);
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

}  // namespace gpufs
