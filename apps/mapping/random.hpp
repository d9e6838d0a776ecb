// Random floats of a seed, the same on both sides.
#pragma once

#include <apps/common/generator.hpp>

#include <cstdint>

namespace gpufs::apps::workloads {

/// Number `i` of the sequence of `seed`, in [0, 1).
[[nodiscard]] constexpr float u01(std::uint64_t seed, std::uint64_t i) {
  return static_cast<float>(generate(seed, i) >> 40) * 0x1p-24f;
}

}  // namespace gpufs::apps::workloads
