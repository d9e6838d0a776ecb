#include <apps/common/generator.hpp>
#include <apps/common/host_file.hpp>
#include <apps/common/program.hpp>
#include <apps/common/script.hpp>
#include <apps/common/temp_file.hpp>
#include <apps/common/temporary_folder.hpp>
#include <apps/harness/parallel.hpp>
#include <apps/harness/picture_file.hpp>
#include <apps/harness/real_input.hpp>
#include <apps/mosaic/picture.hpp>
#include <apps/mosaic/synthetic.hpp>

#include <fmt/format.h>

#include <filesystem>
#include <stdexcept>
#include <system_error>

namespace gpufs::apps {

namespace {

/// Calls each(place, pixel of the place, pixel of the picture).
template <class Each>
void for_each_pixel(std::uint64_t columns, std::uint64_t rows, std::uint64_t picture_width,
                    Each const& each) {
  parallel_for(rows, 1, [&](std::uint64_t row) {
    for (std::uint64_t column = 0; column < columns; ++column) {
      for (unsigned p = 0; p < tile_pixels; ++p) {
        std::uint64_t const y = row * tile_side + p / tile_side,
                            x = column * tile_side + p % tile_side;
        each(row * columns + column, p, y * picture_width + x);
      }
    }
  });
}

picture read_raw(std::string const& path) {
  auto const size = read_real_input(path, {"rows", "columns"}, 3);
  std::uint64_t const width = size.at("columns");
  picture p{width / tile_side, size.at("rows") / tile_side, {}};
  if (p.columns == 0 || p.rows == 0) {
    throw usage_error(fmt::format("--input={}: has {} x {} pixels: must have at least {} x {}",
                                  path, width, size.at("rows"), tile_side, tile_side));
  }
  host_file const file(path);
  std::vector<std::uint8_t> samples(file.size());
  file.read(samples.data(), samples.size(), 0);
  p.places.resize(p.columns * p.rows);
  for_each_pixel(p.columns, p.rows, width,
                 [&](std::uint64_t place, unsigned pixel, std::uint64_t at) {
                   for (unsigned c = 0; c < 3; ++c)
                     p.places[place][4 * pixel + c] = samples[3 * at + c];
                   p.places[place][4 * pixel + 3] = 255;
                 });
  return p;
}

rgba_tile average_of(rgba_tile const& tile) {
  rgba_tile flat;
  for (unsigned c = 0; c < 4; ++c) {
    unsigned sum = 0;
    for (unsigned p = 0; p < tile_pixels; ++p) sum += tile[4 * p + c];
    for (unsigned p = 0; p < tile_pixels; ++p)
      flat[4 * p + c] = static_cast<std::uint8_t>(sum / tile_pixels);
  }
  return flat;
}

}  // namespace

picture picture_of_tiles(database const& d, std::uint64_t columns, std::uint64_t rows,
                         std::uint64_t seed) {
  std::uint64_t const tiles = records_in(d.rgba());
  host_file const file(d.rgba());
  picture p{columns, rows, std::vector<rgba_tile>(columns * rows)};
  parallel_for(p.places.size(), 16, [&](std::uint64_t i) {
    file.read(p.places[i].data(), record_bytes, generate_below(seed, i, tiles) * record_bytes);
  });
  return p;
}

picture picture_of_strangers(std::uint64_t columns, std::uint64_t rows, std::uint64_t seed) {
  picture p{columns, rows, std::vector<rgba_tile>(columns * rows)};
  parallel_for(p.places.size(), 16,
               [&](std::uint64_t i) { p.places[i] = synthetic_tile(~seed, i); });
  return p;
}

picture read_picture(std::string const& path) {
  if (path.ends_with(".rgb8")) return read_raw(path);
  std::error_code error;
  if (!std::filesystem::exists(path, error))
    throw usage_error(
        fmt::format("--input={}: {}", path, error ? error.message() : "there is no such file"));
  if (!std::filesystem::is_regular_file(path, error))
    throw usage_error(fmt::format("--input={}: must be a regular file", path));
  std::string const script = find_script("pictures.py");
  if (script.empty())
    throw std::runtime_error("pictures.py is not beside this program, which reads pictures by it");
  temporary_folder const folder(temp_folder(), "TMPDIR", "mosaic");
  std::string const raw = folder.path() + "/picture.rgb8";
  if (run_picture_script(script, {"picture", path, raw}) != 0) {
    throw std::runtime_error(
        fmt::format("--input={}: could not be read (see above; needs python3)", path));
  }
  return read_raw(raw);
}

void check_mosaic_output(database const& d, std::string const& folder) {
  check_picture_folder(folder);
  if (folder.empty()) return;
  std::uint64_t const tiles = records_in(d.hist());
  std::error_code ignored;
  if (!std::filesystem::exists(d.rgba(), ignored))
    throw usage_error(
        fmt::format("--output={}: a mosaic needs the pictures of the tiles, {}, which is not there "
                    "(--histograms-only leaves it out)",
                    folder, d.rgba()));
  if (std::uint64_t const pictures = records_in(d.rgba()); pictures != tiles)
    throw usage_error(fmt::format("--output={}: {} has {} tiles, {} has {}: make both again",
                                  folder, d.rgba(), pictures, d.hist(), tiles));
}

std::string write_mosaic(picture const& p, std::span<tile_match const> best, database const& d,
                         std::string const& folder) {
  host_file const file(d.rgba());
  std::vector<rgba_tile> tiles(p.places.size());
  parallel_for(tiles.size(), 16, [&](std::uint64_t i) {
    if (best[i].id == no_tile) {
      tiles[i] = average_of(p.places[i]);
    } else {
      file.read(tiles[i].data(), record_bytes, best[i].id * record_bytes);
    }
  });
  std::uint64_t const width = p.columns * tile_side, height = p.rows * tile_side;
  std::vector<std::uint8_t> samples(3 * width * height);
  for_each_pixel(p.columns, p.rows, width,
                 [&](std::uint64_t place, unsigned pixel, std::uint64_t at) {
                   for (unsigned c = 0; c < 3; ++c)
                     samples[3 * at + c] = tiles[place][4 * pixel + c];
                 });
  return write_picture(folder, "mosaic.png", samples, width, height, 3);
}

}  // namespace gpufs::apps
