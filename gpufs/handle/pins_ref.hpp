// What device code counts per frame beside the frame's own state.
#pragma once

#include <cstdint>

namespace gpufs::handle {

struct pins_ref {
  std::uint32_t* mappings = nullptr;  ///< per frame: gmmaps that have not been undone
  std::uint32_t* keepers = nullptr;   ///< per frame: threads whose arrays keep it
  /// How many frames of each group have a keeper; group i is at kept_frames[i * kept_stride]. Frame
  /// f is in group f % kept_groups. With one count for all frames, the warps of a grid would wait
  /// for each other's changes at every page.
  std::uint32_t* kept_frames = nullptr;
  std::uint32_t kept_groups = 1;  ///< a power of two
};

/// Counts of groups lie so many words apart: in sectors of memory of their own.
inline constexpr std::uint32_t kept_stride = 8;

}  // namespace gpufs::handle
