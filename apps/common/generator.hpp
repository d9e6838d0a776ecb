// The counter-based generator of test data: element i depends on (seed, i) alone, so that any byte
// can be checked without the file.
#pragma once

#include <gpufs/base/mix64.hpp>

#include <cstdint>

namespace gpufs::apps {

inline constexpr std::uint64_t golden_gamma = 0x9E3779B97F4A7C15;

/// Element `i` of the sequence that belongs to `seed`.
constexpr std::uint64_t generate(std::uint64_t seed, std::uint64_t i) {
  return base::mix64(seed + (i + 1) * golden_gamma);
}

/// The same as a number in [0, limit).
constexpr std::uint64_t generate_below(std::uint64_t seed, std::uint64_t i, std::uint64_t limit) {
  return static_cast<std::uint64_t>(static_cast<unsigned __int128>(generate(seed, i)) * limit >>
                                    64);
}

static_assert(generate(42, 0) == 0xbdd732262feb6e95 && generate(42, 1) == 0x28efe333b266f103);

}  // namespace gpufs::apps
