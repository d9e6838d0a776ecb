#include <apps/common/generator.hpp>
#include <apps/mosaic/synthetic.hpp>

#include <algorithm>

namespace gpufs::apps {

rgba_tile synthetic_tile(std::uint64_t seed, std::uint64_t m) {
  constexpr int noise = 8, steepest = 64, side = tile_side;
  std::uint64_t const first =
      m * record_bytes;  // numbers of this tile's draws: pixels, then the rest
  auto const draw = [&](unsigned i, std::uint64_t limit) {
    return static_cast<int>(generate_below(seed, first + tile_pixels + i, limit));
  };
  int base[3], along_x[3], along_y[3];
  for (unsigned c = 0; c < 3; ++c) {
    base[c] = draw(3 * c, 256);
    along_x[c] = draw(3 * c + 1, 2 * steepest + 1) - steepest;
    along_y[c] = draw(3 * c + 2, 2 * steepest + 1) - steepest;
  }
  rgba_tile tile;
  for (int y = 0; y < side; ++y) {
    for (int x = 0; x < side; ++x) {
      auto const p = static_cast<unsigned>(y * side + x);
      std::uint64_t const word = generate(seed, first + p);
      for (unsigned c = 0; c < 3; ++c) {
        int const slope =
            (along_x[c] * (2 * x - side + 1) + along_y[c] * (2 * y - side + 1)) / (2 * (side - 1));
        int const grain =
            static_cast<int>((word >> (16 * c) & 0xffff) * (2 * noise + 1) >> 16) - noise;
        tile[4 * p + c] = static_cast<std::uint8_t>(std::clamp(base[c] + slope + grain, 0, 255));
      }
      tile[4 * p + 3] = 255;
    }
  }
  return tile;
}

}  // namespace gpufs::apps
