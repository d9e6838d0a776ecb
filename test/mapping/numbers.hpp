// Arrays of numbers that count up.
#pragma once

#include <cstdint>
#include <numeric>
#include <vector>

namespace gpufs::test {

using words = std::vector<std::uint32_t>;
inline constexpr std::uint64_t mebi = 1 << 20;

/// 1, 2, 3, ...
inline words numbers(std::uint64_t count) {
  words all(count);
  std::iota(all.begin(), all.end(), 1u);
  return all;
}

}  // namespace gpufs::test
