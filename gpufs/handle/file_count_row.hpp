// The rows in which descriptors count: what host and device share of them.
#pragma once

#include <gpufs/file_statistics.hpp>

#include <cstdint>

namespace gpufs::handle {

#define GPUFS_VALUE(name, help) name,
enum class file_counter : unsigned { GPUFS_FILE_COUNTERS(GPUFS_VALUE) count };
#undef GPUFS_VALUE

inline constexpr unsigned file_counter_count = static_cast<unsigned>(file_counter::count);

/// Callers of one stripe add to the same words.
inline constexpr unsigned file_counter_stripes = 32;

/// What the callers of a stripe have counted for a descriptor: two sectors of memory of its own.
/// `tag` is the generation of the descriptor that the values are of. 0: nobody has counted yet.
struct alignas(64) file_count_row {
  std::uint64_t tag;
  std::uint64_t value[file_counter_count];
};
static_assert(sizeof(file_count_row) == 64);

/// A tag that no descriptor has: a caller makes the row that of its own descriptor.
inline constexpr std::uint64_t file_row_changing = ~0ull;

}  // namespace gpufs::handle
