// The files of a database of tiles, in one folder: tiles.hist and tiles.rgba (a record of 4096
// bytes for each tile), and tiles.lsh.
#pragma once

#include <apps/mosaic/lsh_index.hpp>
#include <apps/mosaic/tile.hpp>

#include <cstdint>
#include <span>
#include <string>

namespace gpufs::apps {

struct database {
  std::string folder;

  [[nodiscard]] std::string hist() const { return folder + "/tiles.hist"; }
  [[nodiscard]] std::string rgba() const { return folder + "/tiles.rgba"; }
  [[nodiscard]] std::string lsh() const { return folder + "/tiles.lsh"; }
};

/// Records in a file. Throws std::system_error if there is no such file, std::runtime_error naming
/// it unless it has whole records, and some.
[[nodiscard]] std::uint64_t records_in(std::string const& path);

/// Writes synthetic tiles 0 to tiles - 1; without `pictures` tiles.hist alone. Makes the folder.
/// What was there stays until the new files are durable, so there must be room for both. Throws
/// std::system_error naming the file.
void generate_database(database const& d, std::uint64_t tiles, std::uint64_t seed, bool pictures);

/// Takes tiles from `source`: raw records as of tiles.rgba (NAME.rgba), or whatever
/// scripts/pictures.py reads (a folder of icons, an IDX file). What was there stays until the new
/// files are durable: a source that gives no tiles leaves it. Returns how many. Throws
/// std::runtime_error naming the source, or std::system_error.
std::uint64_t import_database(database const& d, std::string const& source);

/// Indexes the histograms of tiles.hist. Throws std::runtime_error naming file and record if one
/// holds no histogram.
[[nodiscard]] lsh_index index_database(database const& d, lsh_options const& o,
                                       bucket_occupancy& occupancy);

/// How many key bits suit a database: buckets of four on average, if keys were spread evenly.
[[nodiscard]] std::uint32_t suitable_bits(std::uint64_t tiles);

/// Writes a record of tiles.hist.
void put_record(histogram const& h, std::span<std::byte, record_bytes> to);

}  // namespace gpufs::apps
