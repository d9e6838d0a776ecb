// The sizes that the mosaic is measured at.
#pragma once

#include <cstdint>
#include <string_view>

namespace gpufs::apps {

struct mosaic_size {
  std::uint64_t tiles;          ///< of the database
  std::uint64_t columns, rows;  ///< of the picture, in tiles
};

/// smoke: 16 MiB of histograms; medium: 1 GiB; paper: 20.5 GB.
[[nodiscard]] constexpr mosaic_size size_named(std::string_view name) {
  if (name == "paper") return {5'000'000, 256, 192};
  if (name == "medium") return {262'144, 64, 48};
  return {4096, 16, 12};
}

}  // namespace gpufs::apps
