// What the cells and the log records of a stressed file hold. Every byte follows from its place and
// the version, so each reader can tell which write it sees.
#pragma once

#include <apps/common/generator.hpp>

#include <cstddef>
#include <cstdint>

namespace gpufs::stress {

/// What the words of a cell follow from.
constexpr std::uint64_t cell_key(std::uint64_t seed, std::uint64_t cell) {
  return apps::generate(seed, cell);
}

/// Word `word` of version `version` of the cell of `key`. Its lowest byte comes first. Version 0 is
/// what the file begins with: zeros, unless it was `filled`.
constexpr std::uint64_t cell_word(std::uint64_t key, std::uint32_t version, std::uint64_t word,
                                  bool filled) {
  if (version == 0 && !filled) return 0;
  return apps::generate(key, std::uint64_t(version) << 32 | word);
}

/// What operation `operation` of a launch draws its numbers from.
constexpr std::uint64_t operation_seed(std::uint64_t seed, std::uint32_t launch,
                                       std::uint32_t owner, std::uint32_t operation) {
  return apps::generate(seed + launch, std::uint64_t(owner) << 32 | operation);
}

/// Whether an operation writes a cell, if `percent` of all do. It is the operation's first draw.
constexpr bool is_write(std::uint64_t operation, unsigned percent) {
  return apps::generate(operation, 0) % 100 < percent;
}

/// The number of cells that an owner has: every `owners`th from the one of its own number on.
constexpr std::uint64_t cells_of(std::uint32_t owner, std::uint64_t cells, std::uint32_t owners) {
  return (cells - owner + owners - 1) / owners;
}

/// The cell that an operation writes. It is the operation's second draw.
constexpr std::uint64_t written_cell(std::uint64_t operation, std::uint32_t owner,
                                     std::uint64_t cells, std::uint32_t owners) {
  return owner + apps::generate(operation, 1) % cells_of(owner, cells, owners) * owners;
}

/// Bytes of a record of the log file.
inline constexpr std::uint64_t record_bytes = 64;

/// Word `w` of record `number` that worker `worker` appends. Word 0 is never 0, as a gap is.
constexpr std::uint64_t record_word(std::uint32_t worker, std::uint32_t number, unsigned w) {
  std::uint64_t const name = std::uint64_t(worker + 1) << 32 | number;
  return w == 0 ? name : apps::generate(name, w);
}

}  // namespace gpufs::stress
