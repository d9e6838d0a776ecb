// tiles.lsh: a header of 4096 bytes, then coefficients, begins of tables, keys, begins of lists and
// ids, all 4-byte words.
#include <apps/common/host_file.hpp>
#include <apps/common/unfinished_file.hpp>
#include <apps/harness/data_set.hpp>
#include <apps/mosaic/lsh_index.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <system_error>

namespace gpufs::apps {

namespace {

constexpr std::uint64_t lsh_magic = 0x31'48'53'4c'46'47'50'47;  // "GPGFLSH1" in the file
constexpr std::uint32_t lsh_version = 1;
constexpr std::uint64_t header_bytes = 4096;
constexpr std::int32_t largest_coefficient =
    1 << 17;  // with sums of at most 6048 no dot product leaves 32 bits

struct lsh_header {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t tables;
  std::uint32_t bits;
  std::uint32_t centred;
  std::uint64_t tiles;
  std::uint64_t keys;
  std::uint64_t ids;
  std::uint64_t
      checksum;  // the sum of those of the five arrays, each multiplied by its number, from 1
};
static_assert(sizeof(lsh_header) == 56);

template <class Index, class Work>
void for_each_array(Index& index, Work const& work) {
  work(index.coefficients);
  work(index.table_begin);
  work(index.keys);
  work(index.list_begin);
  work(index.ids);
}

std::uint64_t checksum_of(lsh_index const& index) {
  std::uint64_t sum = 0, number = 0;
  for_each_array(index, [&](auto const& array) {
    sum += ++number * parallel_checksum(std::as_bytes(std::span(array)));
  });
  return sum;
}

[[noreturn]] void refuse(std::string const& path, std::string const& why) {
  throw std::runtime_error(fmt::format("{}: {}; make it with: mosaic index", path, why));
}

}  // namespace

std::string flaw(lsh_index const& x) {
  auto const within = [](auto const& begins, std::size_t all) {
    return begins.front() == 0 && begins.back() == all && std::ranges::is_sorted(begins);
  };
  if (!within(x.table_begin, x.keys.size())) return "its tables do not cover its keys";
  if (!within(x.list_begin, x.ids.size())) return "its lists do not cover its ids";
  for (auto const c : x.coefficients) {
    if (c < -largest_coefficient || c > largest_coefficient)
      return fmt::format("a coefficient is {}", c);
  }
  for (unsigned t = 0; t < x.tables; ++t) {
    for (std::uint32_t k = x.table_begin[t]; k < x.table_begin[t + 1]; ++k) {
      if (x.keys[k] >> x.bits != 0)
        return fmt::format("a key is {}: must have {} bits", x.keys[k], x.bits);
      if (k > x.table_begin[t] && x.keys[k] <= x.keys[k - 1])
        return "the keys of a table are not sorted";
    }
  }
  for (std::size_t k = 0; k < x.keys.size(); ++k) {
    std::uint32_t const begin = x.list_begin[k], end = x.list_begin[k + 1];
    if (end - begin > list_limit)
      return fmt::format("a list has {} ids: must have at most {}", end - begin, list_limit);
    for (std::uint32_t i = begin; i < end; ++i) {
      if (x.ids[i] >= x.tiles)
        return fmt::format("an id is {}: must be below {}", x.ids[i], x.tiles);
      if (i > begin && x.ids[i] <= x.ids[i - 1]) return "the ids of a list are not sorted";
    }
  }
  return {};
}

void save_index(lsh_index const& index, std::string const& path) {
  lsh_header const h{
      lsh_magic,   lsh_version,       index.tables,     index.bits,        index.centred ? 1u : 0u,
      index.tiles, index.keys.size(), index.ids.size(), checksum_of(index)};
  std::vector<char> page(header_bytes);
  std::memcpy(page.data(), &h, sizeof(h));
  unfinished_file const file(path);
  std::ofstream out(file.part(), std::ios::binary | std::ios::trunc);
  out.write(page.data(), static_cast<std::streamsize>(page.size()));
  for_each_array(index, [&](auto const& array) {
    out.write(reinterpret_cast<char const*>(array.data()),
              static_cast<std::streamsize>(4 * array.size()));
  });
  if (!out.flush()) throw std::system_error(errno, std::generic_category(), path);
  out.close();
  file.put_in_place();
}

lsh_index load_index(std::string const& path) {
  if (std::error_code ignored; !std::filesystem::exists(path, ignored))
    refuse(path, "No such file: these tiles have no index");
  host_file const file(path);
  lsh_header h{};
  if (file.size() < header_bytes)
    refuse(path, fmt::format("has {} bytes, too few for an index", file.size()));
  file.read(&h, sizeof(h), 0);
  if (h.magic != lsh_magic) refuse(path, "is not an index of tiles");
  if (h.version != lsh_version)
    refuse(path, fmt::format("has version {}: must have {}", h.version, lsh_version));
  if (h.tables < 1 || h.tables > most_tables || h.bits < 1 || h.bits > most_key_bits ||
      h.keys >> 32 != 0 || h.ids >> 32 != 0) {
    refuse(path, fmt::format("has {} tables of {} bits, {} keys, {} ids: not possible", h.tables,
                             h.bits, h.keys, h.ids));
  }
  lsh_index x;
  x.tiles = h.tiles;
  x.tables = h.tables;
  x.bits = h.bits;
  x.centred = h.centred != 0;
  std::uint64_t const words = std::uint64_t{lsh_dimensions} * h.tables * h.bits + h.tables + 1 +
                              h.keys + h.keys + 1 + h.ids;
  if (file.size() != header_bytes + 4 * words) {
    refuse(path, fmt::format("has {} bytes: by its header must have {}", file.size(),
                             header_bytes + 4 * words));
  }
  x.coefficients.resize(std::size_t{lsh_dimensions} * h.tables * h.bits);
  x.table_begin.resize(h.tables + 1);
  x.keys.resize(h.keys);
  x.list_begin.resize(h.keys + 1);
  x.ids.resize(h.ids);
  std::uint64_t at = header_bytes;
  for_each_array(x, [&](auto& array) {
    file.read(array.data(), 4 * array.size(), at);
    at += 4 * array.size();
  });
  if (checksum_of(x) != h.checksum) refuse(path, "is damaged: its checksum is another one");
  if (std::string const why = flaw(x); !why.empty()) refuse(path, why);
  return x;
}

}  // namespace gpufs::apps
