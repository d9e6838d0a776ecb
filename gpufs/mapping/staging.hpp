// Pinned memory through which bytes of files go to and from shared objects.
#pragma once

#include <gpufs/device.hpp>
#include <gpufs/mapping/pool.hpp>

#include <cstddef>
#include <cstdint>

namespace gpufs::shared {

/// Memory for one piece of I/O.
struct staging_piece {
  static constexpr std::uint64_t size = 4 << 20;

  pinned_buffer<std::byte> bytes{size};
  event copied;  ///< the device's copies from or to `bytes` so far
};

using staging_pool = pool<staging_piece>;

}  // namespace gpufs::shared
