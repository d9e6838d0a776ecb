// Which chunks the device has in its memory, and which it uses at the host. Decided before a
// launch. No device, no system calls.
//
// What a launch uses gets device memory in this order: what advice asks for, then what a profile
// says that launches touch, the densest first, then the front of each object, in proportion to its
// size. What is there stays, as it serves as well as its neighbour:
// a program that sweeps over more than fits would find nothing in a least-recently-used order.
#pragma once

#include <gpufs/mapping/tier.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace gpufs::shared {

/// A chunk, as the planner sees it.
struct planned_chunk {
  std::uint64_t bytes;
  tier where;
  memory_advice advice;
  bool is_needed;           ///< by the next launch
  bool is_fixed;            ///< it cannot be moved now
  double position;          ///< in its object: 0 the front, 1 the end
  std::uint64_t last_call;  ///< that used it
  double heat = 0;          ///< the part of it that launches touch, as far as a profile says
};

struct tier_budgets {
  std::uint64_t device, host;
};

struct planned_move {
  std::size_t which;  ///< chunk
  tier to;
};

struct placement_plan {
  bool is_possible = true;
  /// To be done in this order: no budget is exceeded in between. A chunk that goes from one memory
  /// to another is away first.
  std::vector<planned_move> moves = {};
};

/// Seconds that bytes cost, measured on a machine with a GPU (docs/design/mapping.md).
struct move_costs {
  double bus = 1 / 52e9;            ///< a byte copied by DMA, or used by a kernel over the bus
  double per_move = 75e-6;          ///< giving GPU memory to addresses, or taking it away
  double registering = 1 / 29e9;    ///< a byte of the host
  double unregistering = 1 / 61e9;  ///< a byte of the host

  [[nodiscard]] double move(tier from, tier to, std::uint64_t bytes) const;
  /// What a launch gains if it has bytes in device memory and not at the host.
  [[nodiscard]] double gain(std::uint64_t bytes) const { return double(bytes) * bus; }
};

/// A move that a launch can do without is made if so many launches like it would pay for it.
inline constexpr double launches_that_pay = 4;

/// Finds a place for each chunk that is needed. The plan is not possible if the budgets cannot hold
/// them beside what is fixed.
///
/// If plans are carried out whole, one after the other, they come to an end: with chunks of one
/// size the second has no moves. If only a part of each is, they may not.
[[nodiscard]] placement_plan plan_placement(std::span<planned_chunk const> chunks,
                                            tier_budgets budgets, move_costs const& costs = {});

}  // namespace gpufs::shared
