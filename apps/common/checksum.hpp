// An order-independent checksum of bytes: a sum over 8-byte words, each mixed with its place, so
// that devices can add it up in any order. It tells swapped, stale, duplicated and torn pages.
#pragma once

#include <apps/common/generator.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace gpufs::apps {

/// What word `k`, the little-endian bytes [8k, 8k + 8), adds to the checksum. Callable on device
/// and host.
constexpr std::uint64_t checksum_term(std::uint64_t word, std::uint64_t k) {
  return base::mix64(word ^ (k + 1) * golden_gamma);
}

/// The checksum of `bytes`; a tail of less than 8 bytes counts as if zeros followed it.
[[nodiscard]] inline std::uint64_t checksum(std::span<std::byte const> bytes) {
  std::uint64_t sum = 0;
  for (std::uint64_t k = 0; 8 * k < bytes.size(); ++k) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + 8 * k, bytes.size() - 8 * k < 8 ? bytes.size() - 8 * k : 8);
    sum += checksum_term(word, k);
  }
  return sum;
}

}  // namespace gpufs::apps
