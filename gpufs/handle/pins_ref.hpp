// What device code counts per frame beside the frame's own state.
#pragma once

#include <cstdint>

namespace gpufs::handle {

struct pins_ref {
  std::uint32_t* mappings = nullptr;     ///< per frame: gmmaps that have not been undone
  std::uint32_t* keepers = nullptr;      ///< per frame: threads whose arrays keep it
  std::uint32_t* kept_frames = nullptr;  ///< how many frames have a keeper
};

}  // namespace gpufs::handle
