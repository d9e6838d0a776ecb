// The picture that a mosaic is made of, as places of 32 x 32 pixels, and the mosaic as a picture.
#pragma once

#include <apps/mosaic/database.hpp>
#include <apps/mosaic/tile.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace gpufs::apps {

struct picture {
  std::uint64_t columns = 0;  ///< of tiles
  std::uint64_t rows = 0;
  std::vector<rgba_tile> places;  ///< row by row
};

/// A picture made of tiles of the database, drawn at random: for each place there is a tile at
/// distance 0. Throws as host_file does, if tiles.rgba is not there.
[[nodiscard]] picture picture_of_tiles(database const& d, std::uint64_t columns, std::uint64_t rows,
                                       std::uint64_t seed);

/// A picture of tiles like those of a synthetic database, but others.
[[nodiscard]] picture picture_of_strangers(std::uint64_t columns, std::uint64_t rows,
                                           std::uint64_t seed);

/// A picture from a file: raw samples (NAME.rgb8 with its sidecar NAME.rgb8.meta), or whatever
/// scripts/pictures.py reads. What does not fill a tile at the right and at the bottom is left out.
/// Throws usage_error naming --input, std::runtime_error.
[[nodiscard]] picture read_picture(std::string const& path);

/// Throws usage_error naming --output unless a mosaic can be written to the folder: that is one or
/// can be made, and the database has a picture of each tile. Does nothing for an empty name.
void check_mosaic_output(database const& d, std::string const& folder);

/// Writes the mosaic to `folder`/mosaic.png and returns that path. A place without a tile gets its
/// own average colour. Throws std::system_error.
std::string write_mosaic(picture const& p, std::span<tile_match const> best, database const& d,
                         std::string const& folder);

}  // namespace gpufs::apps
