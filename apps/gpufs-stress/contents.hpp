// What the cells and the log records of a stressed file hold. Every byte follows from its place and
// the version, so each reader can tell which write it sees.
#pragma once

#include <apps/common/generator.hpp>

#include <cstddef>
#include <cstdint>

namespace gpufs::stress {

/// Byte `k` of version `version` of cell `cell`. Version 0 is a file that was never written: zeros.
constexpr std::byte cell_byte(std::uint64_t seed, std::uint64_t cell, std::uint32_t version,
                              std::uint64_t k) {
  if (version == 0) return std::byte{0};
  std::uint64_t const word =
      apps::generate(apps::generate(seed, cell), std::uint64_t(version) << 32 | k / 8);
  return static_cast<std::byte>(word >> k % 8 * 8);
}

/// Bytes of a record of the log file.
inline constexpr std::uint64_t record_bytes = 64;

/// Word `w` of record `number` that worker `worker` appends. Word 0 is never 0, as a gap is.
constexpr std::uint64_t record_word(std::uint32_t worker, std::uint32_t number, unsigned w) {
  std::uint64_t const name = std::uint64_t(worker + 1) << 32 | number;
  return w == 0 ? name : apps::generate(name, w);
}

}  // namespace gpufs::stress
