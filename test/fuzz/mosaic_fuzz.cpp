// The files of a mosaic's database: an index of tiles, and the histograms that it is made of. What
// load_index() accepts is looked up without further checks.
#include <apps/common/program.hpp>
#include <apps/harness/data_set.hpp>
#include <apps/mosaic/database.hpp>
#include <apps/mosaic/reference.hpp>
#include <test/fuzz/input.hpp>

#include <array>
#include <cstring>
#include <stdexcept>
#include <vector>

using namespace gpufs;
using fuzz::require;

namespace {

constexpr std::size_t header_bytes = 56, page = 4096;
// Places in the header, as 4-byte and 8-byte words.
constexpr std::size_t tables_at = 12, bits_at = 16, keys_at = 32, ids_at = 40, checksum_at = 48;

template <class Number>
Number number_at(std::string const& file, std::size_t at) {
  Number n{};
  std::memcpy(&n, file.data() + at, sizeof n);
  return n;
}

// Stores the checksum that the file has by its header, if the header is possible.
void repair_checksum(std::string& file) {
  std::uint64_t const tables = number_at<std::uint32_t>(file, tables_at),
                      bits = number_at<std::uint32_t>(file, bits_at),
                      keys = number_at<std::uint64_t>(file, keys_at),
                      ids = number_at<std::uint64_t>(file, ids_at);
  if (tables > 64 || bits > 64 || keys > page || ids > page) return;
  std::uint64_t sum = 0, number = 0, at = page;
  for (auto const words : {apps::lsh_dimensions * tables * bits, tables + 1, keys, keys + 1, ids}) {
    if (at + 4 * words > file.size()) return;
    std::span const bytes{reinterpret_cast<std::byte const*>(file.data()) + at, 4 * words};
    sum += ++number * apps::parallel_checksum(bytes);
    at += 4 * words;
  }
  std::memcpy(file.data() + checksum_at, &sum, sizeof sum);
}

void look_up(apps::lsh_index const& index) {
  auto const view = index.view();
  for (unsigned shape = 0; shape < 3; ++shape) {
    apps::histogram h{};
    for (unsigned b = 0; b < 3; ++b)  // one bin of each channel, or all evenly
      h[b * apps::channel_bins + 85 * shape] = apps::tile_pixels;
    if (shape == 2) h.fill(apps::tile_pixels / apps::channel_bins);
    std::array<std::uint32_t, apps::most_tables> keys{};
    apps::keys_of(view, apps::compact(h, view.subtract), keys);
    for (auto const id : apps::candidates_of(view, keys))
      require(id < index.tiles, "ids are those of tiles");
  }
  // And every key that there is.
  std::vector<std::uint32_t> keys(index.tables);
  for (std::size_t k = 0; k < index.keys.size(); ++k) {
    std::ranges::fill(keys, index.keys[k]);
    for (auto const id : apps::candidates_of(view, keys))
      require(id < index.tiles, "ids are those of tiles");
  }
}

void check_same(apps::lsh_index const& a) {
  auto const path = fuzz::folder() + "/saved.lsh";
  apps::save_index(a, path);
  auto const b = apps::load_index(path);
  require(a.tiles == b.tiles && a.tables == b.tables && a.bits == b.bits &&
              a.centred == b.centred && a.coefficients == b.coefficients &&
              a.table_begin == b.table_begin && a.keys == b.keys && a.list_begin == b.list_begin &&
              a.ids == b.ids,
          "an index is read back the same");
}

// The header, a byte for the coefficients, and the other four arrays. The coefficients that the
// header asks for are made here.
void read_index(fuzz::input in, bool repaired) {
  std::string file(in.bytes(header_bytes));
  file.resize(page);
  auto const coefficient = std::int32_t(in.take<std::int8_t>()) << 10;
  std::uint64_t const count = std::uint64_t{number_at<std::uint32_t>(file, tables_at)} *
                              number_at<std::uint32_t>(file, bits_at) * apps::lsh_dimensions;
  for (std::uint64_t i = 0; i < count && count <= 64 * page; ++i)
    file.append(reinterpret_cast<char const*>(&coefficient), sizeof coefficient);
  file += in.rest();
  if (repaired) repair_checksum(file);
  try {
    auto const index = apps::load_index(fuzz::put_file("tiles.lsh", file));
    look_up(index);
    check_same(index);
  } catch (std::runtime_error const&) {
  }
}

// Records of histograms: each some bins with their counts, and a 0. Other bins are 0.
void read_histograms(fuzz::input in) {
  apps::lsh_options o;
  o.tables = 1 + in.below(4);
  o.bits = 1 + in.below(8);
  o.centred = in.below(2) != 0;
  o.seed = in.below(255);
  std::string file;
  while (!in.empty() && file.size() < 64 * apps::record_bytes) {
    std::array<float, apps::record_bytes / sizeof(float)> record{};
    for (std::uint16_t bin; (bin = in.take<std::uint16_t>()) != 0;) {
      auto const count = in.take<std::uint16_t>();
      float raw = count;
      if (count == 0xffff) raw = in.take<float>();
      record[bin % record.size()] = raw;
    }
    file.append(reinterpret_cast<char const*>(record.data()), sizeof record);
  }
  file.resize(file.size() - std::min<std::size_t>(file.size(), in.below(2)));
  fuzz::put_file("tiles.hist", file);
  try {
    apps::bucket_occupancy occupancy;
    auto const index = apps::index_database({fuzz::folder()}, o, occupancy);
    require(apps::flaw(index).empty(), "an index that was made has no flaw");
    look_up(index);
    check_same(index);
  } catch (std::runtime_error const&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  fuzz::input in{data, size};
  switch (in.take<std::uint8_t>()) {
    case 'h': read_histograms(in); break;
    case 'd': read_index(in, false); break;
    default: read_index(in, true); break;
  }
  return 0;
}
