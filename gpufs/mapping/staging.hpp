// Pinned memory through which bytes of files go to and from shared objects.
#pragma once

#include <gpufs/device.hpp>
#include <gpufs/mapping/pool.hpp>
#include <gpufs/mapping/staging_memory.hpp>

#include <cstddef>
#include <cstdint>

namespace gpufs::shared {

/// Memory for one piece of I/O.
struct staging_piece {
  static constexpr std::uint64_t size = 4 << 20;
  /// Of calls that move less than that: to pin `size` takes longer than such a call.
  static constexpr std::uint64_t small_size = 256 << 10;

  explicit staging_piece(std::uint64_t bytes = size) : bytes(bytes) {}

  staging_memory bytes;
  event copied;  ///< the device's copies from or to `bytes` so far
};

using staging_pool = pool<staging_piece>;

}  // namespace gpufs::shared
