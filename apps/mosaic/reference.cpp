#include <apps/harness/parallel.hpp>
#include <apps/mosaic/reference.hpp>

#include <algorithm>
#include <array>
#include <atomic>

namespace gpufs::apps {

std::vector<std::uint32_t> candidates_of(lsh_view const& index,
                                         std::span<std::uint32_t const> keys) {
  std::vector<std::uint32_t> all;
  for (unsigned t = 0; t < index.tables; ++t) {
    std::uint32_t const* const begin = index.keys + index.table_begin[t];
    std::uint32_t const* const end = index.keys + index.table_begin[t + 1];
    std::uint32_t const* const at = std::lower_bound(begin, end, keys[t]);
    if (at == end || *at != keys[t]) continue;
    std::uint32_t const* const list = index.list_begin + (at - index.keys);
    for (std::uint32_t i = list[0]; i < list[1]; ++i) {
      if (std::ranges::find(all, index.ids[i]) != all.end()) continue;
      if (all.size() == candidate_limit) return all;
      all.push_back(index.ids[i]);
    }
  }
  return all;
}

std::uint32_t distance(histogram const& h, float const* record) {
  constexpr unsigned lanes =
      16;  // sums side by side, which the compiler puts into vector registers
  static_assert(histogram_bins % lanes == 0);
  std::array<float, lanes> part{};
  for (unsigned b = 0; b < histogram_bins; b += lanes) {
    for (unsigned k = 0; k < lanes; ++k) {
      float const difference =
          static_cast<float>(static_cast<std::int32_t>(h[b + k])) - record[b + k];
      part[k] += difference * difference;
    }
  }
  float sum = 0;
  for (float const p : part) sum += p;
  return sum < static_cast<float>(no_distance) ? static_cast<std::uint32_t>(sum) : no_distance;
}

std::vector<tile_match> match_on_host(lsh_view const& index, std::span<rgba_tile const> places,
                                      histogram_source const& source, std::uint64_t& compared) {
  std::vector<tile_match> best(places.size());
  std::atomic<std::uint64_t> all{0};
  parallel_ranges(places.size(), 8, [&](std::uint64_t begin, std::uint64_t end) {
    alignas(64) std::array<float, histogram_bins> buffer;
    std::array<std::uint32_t, most_tables> keys;
    std::uint64_t mine = 0;
    for (std::uint64_t i = begin; i < end; ++i) {
      histogram const h = histogram_of(places[i]);
      keys_of(index, compact(h, index.subtract), keys);
      for (std::uint32_t const id : candidates_of(index, keys)) {
        ++mine;
        std::uint32_t const d = distance(h, source(id, buffer.data()));
        if (d < best[i].distance) best[i] = {id, d};
      }
    }
    all.fetch_add(mine, std::memory_order_relaxed);  // a sum: orders nothing
  });
  compared = all;
  return best;
}

}  // namespace gpufs::apps
