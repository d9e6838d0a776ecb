#include <apps/common/generator.hpp>
#include <apps/harness/parallel.hpp>
#include <apps/mosaic/lsh_index.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <numbers>
#include <stdexcept>

namespace gpufs::apps {

namespace {

double uniform(std::uint64_t seed, std::uint64_t i) {
  return (static_cast<double>(generate(seed, i) >> 11) + 0.5) * 0x1p-53;
}

/// A table while it is being made.
struct one_table {
  std::vector<std::uint32_t> keys;
  std::vector<std::uint32_t> lengths;
  std::vector<std::uint32_t> ids;
};

class occupancy_count {
 public:
  explicit occupancy_count(std::uint64_t tiles) : found_((tiles + 63) / 64) {}

  void bucket(std::uint64_t size) {
    ++sum_.buckets;
    sum_.largest = std::max(sum_.largest, size);
    sum_.cut += size > list_limit ? size - list_limit : 0;
    ++sum_.of_size[size > list_limit ? 6 : static_cast<unsigned>(std::bit_width(size - 1))];
  }
  void found(std::uint32_t id) { found_[id / 64] |= std::uint64_t{1} << (id % 64); }

  [[nodiscard]] bucket_occupancy result(std::uint64_t tiles) {
    sum_.lost = tiles;
    for (auto const word : found_) sum_.lost -= static_cast<std::uint64_t>(std::popcount(word));
    return sum_;
  }

 private:
  bucket_occupancy sum_;
  std::vector<std::uint64_t> found_;  // a bit for each tile
};

one_table sort_into_buckets(std::vector<std::uint32_t> const& key_of,
                            std::vector<std::uint32_t>& sizes) {
  std::vector<std::uint64_t> order(key_of.size());  // key, then id
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = std::uint64_t{key_of[i]} << 32 | i;
  std::ranges::sort(order);
  one_table t;
  for (std::size_t i = 0; i < order.size();) {
    auto const key = static_cast<std::uint32_t>(order[i] >> 32);
    std::size_t end = i;
    while (end < order.size() && order[end] >> 32 == key) ++end;
    std::size_t const kept = std::min<std::size_t>(end - i, list_limit);
    t.keys.push_back(key);
    t.lengths.push_back(static_cast<std::uint32_t>(kept));
    sizes.push_back(static_cast<std::uint32_t>(end - i));
    for (std::size_t k = 0; k < kept; ++k)
      t.ids.push_back(static_cast<std::uint32_t>(order[i + k]));
    i = end;
  }
  return t;
}

}  // namespace

compacted compact(histogram const& h, std::int32_t subtract) {
  compacted x;
  for (unsigned d = 0; d < lsh_dimensions; ++d) {
    x[d] =
        static_cast<std::int32_t>(h[4 * d] + h[4 * d + 1] + h[4 * d + 2] + h[4 * d + 3]) - subtract;
  }
  return x;
}

void keys_of(lsh_view const& index, compacted const& x, std::span<std::uint32_t> keys) {
  constexpr unsigned most_vectors = most_tables * most_key_bits;
  unsigned const vectors = index.tables * index.bits;
  std::array<std::int32_t, most_vectors> dot;
  dot.fill(0);
  for (unsigned d = 0; d < lsh_dimensions; ++d) {
    if (x[d] == 0) continue;
    std::int32_t const* const row = index.coefficients + std::size_t{d} * vectors;
    for (unsigned v = 0; v < vectors; ++v) dot[v] += x[d] * row[v];
  }
  for (unsigned t = 0; t < index.tables; ++t) {
    std::uint32_t key = 0;
    for (unsigned b = 0; b < index.bits; ++b)
      key = key << 1 | (dot[t * index.bits + b] > 0 ? 1 : 0);
    keys[t] = key;
  }
}

std::vector<std::int32_t> draw_coefficients(lsh_options const& o) {
  std::vector<std::int32_t> all(std::size_t{lsh_dimensions} * o.tables * o.bits);
  for (std::size_t i = 0; i < all.size(); ++i) {  // Box and Muller's method
    double const radius = std::sqrt(-2 * std::log(uniform(o.seed, 2 * i)));
    all[i] = static_cast<std::int32_t>(
        std::lround(1024 * radius * std::cos(2 * std::numbers::pi * uniform(o.seed, 2 * i + 1))));
  }
  return all;
}

lsh_index make_index(lsh_options const& o, std::vector<std::int32_t> coefficients,
                     std::vector<std::vector<std::uint32_t>> const& keys,
                     bucket_occupancy& occupancy) {
  lsh_index all;
  all.tiles = keys.empty() ? 0 : keys.front().size();
  all.tables = o.tables;
  all.bits = o.bits;
  all.centred = o.centred;
  all.coefficients = std::move(coefficients);
  if (all.tiles * o.tables >= std::uint64_t{1} << 32) {
    throw std::length_error(fmt::format("{} tiles in {} tables: at most 2^32 entries fit an index",
                                        all.tiles, o.tables));
  }
  occupancy_count count(all.tiles);
  all.table_begin.push_back(0);
  all.list_begin.push_back(0);
  // As many tables at once as there are threads; they are appended in order.
  unsigned const together = io_threads();
  for (unsigned first = 0; first < o.tables; first += together) {
    unsigned const now = std::min(together, o.tables - first);
    std::vector<one_table> made(now);
    std::vector<std::vector<std::uint32_t>> sizes(now);
    parallel_for(now, 1,
                 [&](std::uint64_t i) { made[i] = sort_into_buckets(keys[first + i], sizes[i]); });
    for (unsigned i = 0; i < now; ++i) {
      one_table const& t = made[i];
      for (auto const size : sizes[i]) count.bucket(size);
      for (auto const id : t.ids) count.found(id);
      for (auto const length : t.lengths) all.list_begin.push_back(all.list_begin.back() + length);
      all.keys.insert(all.keys.end(), t.keys.begin(), t.keys.end());
      all.ids.insert(all.ids.end(), t.ids.begin(), t.ids.end());
      all.table_begin.push_back(static_cast<std::uint32_t>(all.keys.size()));
    }
  }
  occupancy = count.result(all.tiles);
  return all;
}

lsh_index build_index(lsh_options const& o, std::uint64_t tiles, read_histograms const& read,
                      bucket_occupancy& occupancy) {
  constexpr std::uint64_t range = 256;
  std::vector<std::int32_t> coefficients = draw_coefficients(o);
  lsh_view hash{};
  hash.coefficients = coefficients.data();
  hash.tables = o.tables;
  hash.bits = o.bits;
  hash.subtract = o.centred ? compacted_mean : 0;
  std::vector<std::vector<std::uint32_t>> keys(o.tables, std::vector<std::uint32_t>(tiles));
  parallel_ranges(tiles, range, [&](std::uint64_t begin, std::uint64_t end) {
    std::vector<histogram> part(end - begin);
    read(begin, part);
    std::array<std::uint32_t, most_tables> of_tile;
    for (std::uint64_t i = begin; i < end; ++i) {
      keys_of(hash, compact(part[i - begin], hash.subtract), of_tile);
      for (unsigned t = 0; t < o.tables; ++t) keys[t][i] = of_tile[t];
    }
  });
  return make_index(o, std::move(coefficients), keys, occupancy);
}

}  // namespace gpufs::apps
