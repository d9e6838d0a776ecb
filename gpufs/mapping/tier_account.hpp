// What an address space knows of its tiers as a whole.
#pragma once

#include <gpufs/mapping/block_runs.hpp>
#include <gpufs/mapping/planner.hpp>
#include <gpufs/mapping/tier.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace gpufs::shared {

/// Protected by the mutex of the address space.
struct tier_account {
  tier_budgets budgets;
  std::array<std::uint64_t, 3> bytes{};  ///< in each tier, by tier
  std::uint64_t single_chunks = 0;       ///< that are not in device memory, of all objects
  std::uint64_t changes = 0;             ///< of what a plan depends on
  /// What the last launch that needed no move used: objects' offsets and blocks. And `changes`
  /// then.
  std::vector<std::pair<std::uint64_t, block_run>> last_placed = {};
  std::uint64_t placed_at = ~0ull;
  bool is_placing = false;  ///< launches wait until chunks have moved
  unsigned forgetting = 0;  ///< objects whose memory is being given back

  [[nodiscard]] std::uint64_t in(tier t) const { return bytes[std::size_t(t)]; }
};

}  // namespace gpufs::shared
