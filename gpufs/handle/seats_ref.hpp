// What device code needs of the seats.
#pragma once

#include <cstdint>

namespace gpufs::handle {

/// A seat is what an io_context claims while it lives: a prefetch buffer and a queue of frames.
struct seats_ref {
  std::uint32_t* states = nullptr;   ///< per seat: 0 = free, 1 = claimed
  std::uint32_t* claimed = nullptr;  ///< how many are claimed
  /// how often kernels have advised; beside `claimed`, since both are read together
  std::uint32_t* advice_changes = nullptr;
  std::uint32_t* freed = nullptr;  ///< the seat that was given back last: probably free
  std::uint32_t count = 0;
};

}  // namespace gpufs::handle
