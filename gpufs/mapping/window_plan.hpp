// How many items of several arrays a window has. No device, no system calls.
#pragma once

#include <gpufs/mapping/planner.hpp>

#include <algorithm>
#include <cstdint>
#include <span>

namespace gpufs::shared {

/// An array of items that lies in chunks.
struct chunked_items {
  std::uint64_t item_bytes, chunk_bytes;
};

/// Windows that are in memory at once: one is used, one filled, one written back.
inline constexpr std::uint64_t windows_at_once = 3;

/// Items of a window of which windows_at_once fit into `memory`; 0: they do not.
inline std::uint64_t items_that_fit(std::span<chunked_items const> arrays, std::uint64_t memory) {
  std::uint64_t const room = memory / windows_at_once;
  std::uint64_t per_item = 0, borders = 0, step = 1;
  bool is_aligned = true;
  for (auto const& a : arrays) {
    per_item += a.item_bytes;
    borders += 2 * a.chunk_bytes;
    is_aligned = is_aligned && a.chunk_bytes % a.item_bytes == 0;
    if (is_aligned) step = std::max(step, a.chunk_bytes / a.item_bytes);
  }
  if (per_item == 0) return 0;
  // Whole chunks of each array, if steps of all arrays are multiples of each other.
  for (auto const& a : arrays) is_aligned = is_aligned && step * a.item_bytes % a.chunk_bytes == 0;
  if (is_aligned && room / per_item >= step) return room / per_item / step * step;
  return room <= borders ? 0 : (room - borders) / per_item;
}

/// The same for the budgets: device memory alone, if it is not too small.
inline std::uint64_t items_of_window(std::span<chunked_items const> arrays, tier_budgets budgets) {
  auto const in_device = items_that_fit(arrays, budgets.device);
  return in_device != 0 ? in_device : items_that_fit(arrays, budgets.device + budgets.host);
}

}  // namespace gpufs::shared
