// What an address space knows of its tiers as a whole.
#pragma once

#include <gpufs/mapping/backing_file.hpp>
#include <gpufs/mapping/block_runs.hpp>
#include <gpufs/mapping/object.hpp>
#include <gpufs/mapping/planner.hpp>
#include <gpufs/mapping/tier.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

namespace gpufs::shared {

/// Makes a file that has no name. Throws config_error naming its folder.
using spill_file_maker = std::function<std::shared_ptr<backing_file const>()>;

/// Protected by the mutex of the address space, but for the first two.
struct tier_account {
  spill_file_maker make_spill_file = nullptr;  ///< null: nothing is spilled
  std::uint64_t most_at_host = 0;  ///< bytes in the tier host and of kept chunks, before they spill
  tier_budgets budgets;
  std::array<std::uint64_t, 3> bytes{};  ///< in each tier, by tier
  std::uint64_t single_chunks = 0;       ///< that are not in device memory, of all objects
  std::uint64_t managed_bytes = 0;       ///< of objects that no budget holds, in no tier above
  bool has_host_advice = false;          ///< chunks may have to leave device memory for it
  std::uint64_t changes = 0;             ///< of what a plan depends on
  /// What the last launch that needed no move used: objects' offsets and blocks. And `changes`
  /// then.
  std::vector<std::pair<std::uint64_t, block_run>> last_placed = {};
  std::uint64_t placed_at = ~0ull;
  bool is_placing = false;      ///< launches wait until chunks have moved
  unsigned forgetting = 0;      ///< objects whose memory is being given back; it counts in no tier
  std::uint64_t forgotten = 0;  ///< those whose memory has been given back
  bool is_short = false;        ///< memory was refused beside these; the next plan waits for them

  std::uint64_t kept_bytes = 0;  ///< of chunks that are kept
  std::uint64_t touches = 0;     ///< by which chunks came to be kept, or were used then
  bool is_spilling = false;

  /// Whether memory that was refused since `forgotten` had that value may be there next time.
  [[nodiscard]] bool gets_back(std::uint64_t since) const {
    return forgetting != 0 || forgotten != since;
  }
  [[nodiscard]] std::uint64_t in(tier t) const { return bytes[std::size_t(t)]; }
  [[nodiscard]] bool is_over() const { return in(tier::host) + kept_bytes > most_at_host; }
  [[nodiscard]] bool can_spill(object const& o) const {
    return make_spill_file != nullptr && o.file != nullptr && o.file->is_scratch &&
           o.protocol == coherence_protocol::rolling;
  }
  /// The CPU's side of a chunk that is away has bytes, or they were used.
  void keep(object& o, std::size_t i) {
    auto& c = o.chunks[i];
    if (c.where != tier::away || !can_spill(o)) return;
    if (c.touched != touches || touches == 0) c.touched = ++touches;
    if (!std::exchange(c.is_kept, true)) kept_bytes += o.room_of_chunk(i);
  }
  /// It has none any more, or is not away.
  void give_up(object& o, std::size_t i) {
    auto& c = o.chunks[i];
    if (std::exchange(c.is_kept, false)) kept_bytes -= o.room_of_chunk(i);
  }
};

}  // namespace gpufs::shared
