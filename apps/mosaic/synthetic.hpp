// A database of generated tiles: tile m depends on (seed, m) alone.
#pragma once

#include <apps/mosaic/tile.hpp>

#include <cstdint>

namespace gpufs::apps {

/// A colour, a linear gradient in each channel, and noise.
[[nodiscard]] rgba_tile synthetic_tile(std::uint64_t seed, std::uint64_t m);

}  // namespace gpufs::apps
