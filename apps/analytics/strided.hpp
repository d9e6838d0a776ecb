// The order in which warps take parts of a file.
#pragma once

#include <gpufs/device.hpp>

#include <cstdint>

namespace gpufs::apps::analytics {

/// The part that comes at turn `i`, below `parts`. Each part comes once. Successive turns take
/// parts that lie `stride` apart, 1: neighbours.
__host__ __device__ constexpr std::uint64_t part_at_turn(std::uint64_t i, std::uint64_t parts,
                                                         std::uint64_t stride) {
  std::uint64_t const each = parts / stride;  // parts of each of `stride` series
  if (stride == 1 || i >= each * stride) return i;
  return i / each + i % each * stride;
}

}  // namespace gpufs::apps::analytics
