// The contents of namespaces in tests: each word depends on its block and its place in it.
#pragma once

#include <gpufs/base/mix64.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace gpufs::test {

inline constexpr std::uint32_t pattern_lba = 512;
/// Blocks of the namespace that conformance cases use. They read the first half and write to the
/// last blocks.
inline constexpr std::uint64_t pattern_blocks = 8192;
inline constexpr std::uint64_t first_written = pattern_blocks - 2048;

/// Word `k` of block `lba`.
GPUFS_HOST_DEVICE inline std::uint64_t pattern_word(std::uint64_t lba, std::uint64_t k) {
  return base::mix64(lba << 8 | k);
}

inline void fill_pattern(std::span<std::byte> blocks, std::uint64_t lba) {
  for (std::size_t i = 0; i < blocks.size() / 8; ++i) {
    std::uint64_t const word = pattern_word(lba + i / 64, i % 64);
    std::memcpy(blocks.data() + 8 * i, &word, 8);
  }
}

/// Whether the bytes are those of whole blocks from `lba` on.
inline bool is_pattern(std::byte const* bytes, std::uint64_t lba, std::uint64_t blocks) {
  for (std::uint64_t i = 0; i < blocks * 64; ++i) {
    std::uint64_t const word = pattern_word(lba + i / 64, i % 64);
    if (std::memcmp(bytes + 8 * i, &word, 8) != 0) return false;
  }
  return true;
}

}  // namespace gpufs::test
