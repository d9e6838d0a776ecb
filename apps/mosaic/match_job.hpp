// What host and kernel of the mosaic hand each other.
#pragma once

#include <apps/mosaic/lsh_index.hpp>
#include <apps/mosaic/tile.hpp>

#include <cstdint>

namespace gpufs::apps {

/// In device memory: the first histogram that could not be read.
struct match_failure {
  std::uint32_t taken;  ///< elects who reports
  std::uint32_t id;
  std::int64_t result;  ///< -errno, or bytes
};

struct match_job {
  /// tile_pixels for each place: red in the lowest byte, then green, blue
  std::uint32_t const* pixels = nullptr;
  std::uint64_t places = 0;
  lsh_view index{};                        ///< its arrays lie in device memory
  tile_match* best = nullptr;              ///< one for each place
  unsigned long long* next = nullptr;      ///< first place that no block has taken; 0 at the start
  unsigned long long* compared = nullptr;  ///< candidates looked at in all; 0 at the start
  match_failure* failure = nullptr;        ///< zeros at the start
};

/// Rows of 32 threads in a block.
inline constexpr unsigned most_match_rows = 8;

}  // namespace gpufs::apps
