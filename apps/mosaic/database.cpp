#include <apps/common/durable.hpp>
#include <apps/common/free_space.hpp>
#include <apps/common/host_file.hpp>
#include <apps/common/program.hpp>
#include <apps/common/script.hpp>
#include <apps/common/temp_file.hpp>
#include <apps/common/unfinished_file.hpp>
#include <apps/mosaic/database.hpp>
#include <apps/mosaic/synthetic.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <system_error>
#include <vector>

#include <unistd.h>

namespace gpufs::apps {

namespace {

void make_folder(std::string const& folder) {
  if (auto const error = make_folders(folder))
    throw usage_error(fmt::format("--data={}: {}", folder, error.message()));
}

/// Writes `tiles` records, each by put(number, record).
template <class Put>
void write_records(unfinished_file const& file, std::uint64_t tiles, Put const& put) {
  int const fd = file.open_part();
  if (fd < 0) throw std::system_error(errno, std::generic_category(), file.part());
  int const error =
      fill_file(fd, tiles * record_bytes, [&](std::uint64_t offset, std::span<std::byte> to) {
        for (std::uint64_t at = 0; at < to.size(); at += record_bytes) {
          put((offset + at) / record_bytes,
              std::span<std::byte, record_bytes>(to.data() + at, record_bytes));
        }
      });
  ::close(fd);
  if (error != 0)
    throw std::system_error(error, std::generic_category(),
                            fmt::format("{} of {} tiles", file.part(), tiles));
}

void write_histograms(std::string const& rgba, unfinished_file const& hist, std::uint64_t tiles) {
  host_file const pictures(rgba);
  write_records(hist, tiles, [&](std::uint64_t m, std::span<std::byte, record_bytes> to) {
    rgba_tile tile;
    pictures.read(tile.data(), record_bytes, m * record_bytes);
    put_record(histogram_of(tile), to);
  });
}

/// Takes a file away for good. Of a link that leads to a file, it takes that file.
void remove_durably(std::string const& path) {
  std::error_code none;
  auto const end = std::filesystem::canonical(path, none).string();
  auto const& name = none ? path : end;
  std::filesystem::remove(name);
  if (auto const error = make_folder_durable(folder_of(name))) throw std::system_error(error, name);
}

void make_names_durable(database const& d) {
  if (auto const error = make_folder_durable(d.folder)) throw std::system_error(error, d.folder);
}

/// Takes `old` away and puts new files in place, tiles.hist last. What was there goes only when the
/// new files are durable under their other names. A crash leaves a tiles.hist only beside the files
/// that belong to it.
void replace_files(database const& d, std::vector<std::string> const& old,
                   std::vector<unfinished_file const*> const& made) {
  for (auto const* const file : made) file->make_durable();
  make_names_durable(d);
  for (auto const& path : old) remove_durably(path);
  for (auto const* const file : made) file->put_in_place();
}

/// A histogram out of a record, or false.
bool take_record(std::byte const* record, histogram& h) {
  std::uint64_t sum = 0;
  for (unsigned b = 0; b < histogram_bins; ++b) {
    float value = 0;
    std::memcpy(&value, record + b * sizeof(float), sizeof(float));
    if (!(value >= 0 && value <= tile_pixels) || std::floor(value) != value) return false;
    h[b] = static_cast<std::uint32_t>(value);
    sum += h[b];
  }
  return sum == 3 * tile_pixels;
}

/// Throws usage_error if a file has the name of tiles.hist and holds something else.
void check_old_tiles(database const& d) {
  std::error_code ignored;
  if (!std::filesystem::exists(d.hist(), ignored)) return;
  host_file const old(d.hist());
  if (old.size() == 0) return;
  std::vector<std::byte> record(record_bytes);
  histogram found;
  if (old.size() % record_bytes == 0) {
    old.read(record.data(), record_bytes, 0);
    if (take_record(record.data(), found)) return;
  }
  throw usage_error(fmt::format(
      "--data={}: its tiles.hist holds no histograms: move it away, or name another folder",
      d.folder));
}

}  // namespace

std::uint64_t records_in(std::string const& path) {
  host_file const file(path);
  if (file.size() == 0 || file.size() % record_bytes != 0) {
    throw std::runtime_error(
        fmt::format("{} has {} bytes: must be a multiple of {}, a record for each tile", path,
                    file.size(), record_bytes));
  }
  return file.size() / record_bytes;
}

void put_record(histogram const& h, std::span<std::byte, record_bytes> to) {
  std::ranges::fill(to, std::byte{0});
  for (unsigned b = 0; b < histogram_bins; ++b) {
    auto const value = static_cast<float>(h[b]);
    std::memcpy(to.data() + b * sizeof(float), &value, sizeof(float));
  }
}

void generate_database(database const& d, std::uint64_t tiles, std::uint64_t seed, bool pictures) {
  make_folder(d.folder);
  check_old_tiles(d);
  require_free_space(d.folder, "--data", (pictures ? 2 : 1) * tiles * record_bytes);
  std::vector<unfinished_file const*> made;
  std::optional<unfinished_file> rgba;
  if (pictures) {
    made.push_back(&rgba.emplace(d.rgba()));
    write_records(*rgba, tiles, [&](std::uint64_t m, std::span<std::byte, record_bytes> to) {
      rgba_tile const tile = synthetic_tile(seed, m);
      std::memcpy(to.data(), tile.data(), record_bytes);
    });
  }
  unfinished_file const hist(d.hist());
  made.push_back(&hist);
  write_records(hist, tiles, [&](std::uint64_t m, std::span<std::byte, record_bytes> to) {
    put_record(histogram_of(synthetic_tile(seed, m)), to);
  });
  std::vector<std::string> old{d.hist(), d.lsh()};
  if (!pictures) old.push_back(d.rgba());
  replace_files(d, old, made);
}

std::uint64_t import_database(database const& d, std::string const& source) {
  std::error_code error;
  if (!std::filesystem::exists(source, error))
    throw usage_error(
        fmt::format("{}: {}", source, error ? error.message() : "there is no such file or folder"));
  if (!std::filesystem::is_directory(source, error) &&
      !std::filesystem::is_regular_file(source, error))
    throw usage_error(fmt::format("{}: must be a regular file or a folder", source));
  make_folder(d.folder);
  check_old_tiles(d);
  unfinished_file const rgba(d.rgba()), hist(d.hist());
  std::error_code none;
  bool const is_there = std::filesystem::equivalent(source, d.rgba(), none);
  if (is_there) {
    // Only the histograms are made again.
  } else if (source.ends_with(".rgba")) {
    std::filesystem::copy_file(source, rgba.part(),
                               std::filesystem::copy_options::overwrite_existing);
  } else {
    std::string const script = find_script("pictures.py");
    if (script.empty())
      throw std::runtime_error(
          "pictures.py is not beside this program, which reads pictures by it");
    if (run_picture_script(script, {"tiles", source, rgba.part()}) != 0) {
      throw std::runtime_error(
          fmt::format("{}: no tiles could be taken from it (see above; needs python3)", source));
    }
  }
  std::string const tiles_in = is_there ? d.rgba() : rgba.part();
  std::uint64_t const tiles = records_in(tiles_in);
  write_histograms(tiles_in, hist, tiles);
  std::vector<unfinished_file const*> made{&hist};
  if (!is_there) made.insert(made.begin(), &rgba);
  replace_files(d, {d.hist(), d.lsh()}, made);
  return tiles;
}

lsh_index index_database(database const& d, lsh_options const& o, bucket_occupancy& occupancy) {
  std::uint64_t const tiles = records_in(d.hist());
  host_file const file(d.hist());
  auto const read = [&](std::uint64_t first, std::span<histogram> to) {
    std::vector<std::byte> records(to.size() * record_bytes);
    file.read(records.data(), records.size(), first * record_bytes);
    for (std::size_t i = 0; i < to.size(); ++i) {
      if (!take_record(records.data() + i * record_bytes, to[i])) {
        throw std::runtime_error(fmt::format("{}: record {} holds no histogram of {} pixels",
                                             d.hist(), first + i, tile_pixels));
      }
    }
  };
  return build_index(o, tiles, read, occupancy);
}

std::uint32_t suitable_bits(std::uint64_t tiles) {
  return static_cast<std::uint32_t>(
      std::clamp(static_cast<int>(std::bit_width(tiles)) - 3, 2, static_cast<int>(most_key_bits)));
}

}  // namespace gpufs::apps
