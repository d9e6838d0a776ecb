// The unit that everything here is made of: a picture of 32 x 32 pixels, and its record in each of
// the database's two files.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace gpufs::apps {

inline constexpr unsigned tile_side = 32;
inline constexpr unsigned tile_pixels = tile_side * tile_side;
inline constexpr unsigned channel_bins = 256;
inline constexpr unsigned histogram_bins = 3 * channel_bins;  ///< red, green, blue

/// Of tiles.rgba: the pixels row by row, red, green, blue, alpha. Of tiles.hist: 768 floats, each a
/// count, and zeros up to the page's end.
inline constexpr std::uint64_t record_bytes = 4096;
inline constexpr std::uint64_t histogram_bytes = histogram_bins * sizeof(float);
static_assert(tile_pixels * 4 == record_bytes && histogram_bytes <= record_bytes);

using rgba_tile = std::array<std::uint8_t, record_bytes>;
using histogram = std::array<std::uint32_t, histogram_bins>;

/// How often each value occurs in each channel; alpha does not count.
[[nodiscard]] inline histogram histogram_of(rgba_tile const& tile) {
  histogram h{};
  for (unsigned p = 0; p < tile_pixels; ++p) {
    for (unsigned c = 0; c < 3; ++c) ++h[c * channel_bins + tile[4 * p + c]];
  }
  return h;
}

/// What stands for "no tile", and a distance that no two histograms have: theirs are whole numbers
/// of at most 3 * 2 * 1024^2 < 2^23, so that floats hold them, and every partial sum, exactly.
inline constexpr std::uint32_t no_tile = ~0u;
inline constexpr std::uint32_t no_distance = 1u << 24;

/// The best tile for a place: the first among the candidates that no other is nearer than.
struct tile_match {
  std::uint32_t id = no_tile;
  std::uint32_t distance = no_distance;  ///< squared, between histograms
  bool operator==(tile_match const&) const = default;
};

}  // namespace gpufs::apps
