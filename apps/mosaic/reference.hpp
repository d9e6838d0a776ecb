// The mosaic by the host alone, in the plainest way. The kernel and the program are compared with
// it.
#pragma once

#include <apps/mosaic/lsh_index.hpp>
#include <apps/mosaic/tile.hpp>

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace gpufs::apps {

/// Ids of the lists that `keys` (one for each table) name, in the order of the tables, each once,
/// candidate_limit at most.
[[nodiscard]] std::vector<std::uint32_t> candidates_of(lsh_view const& index,
                                                       std::span<std::uint32_t const> keys);

/// Squared distance between a histogram and a record's; no_distance where the record holds no
/// histogram.
[[nodiscard]] std::uint32_t distance(histogram const& h, float const* record);

/// Delivers the histogram of a tile of the database; `buffer` has room for it. Called by several
/// threads at once, each with its own buffer.
using histogram_source = std::function<float const*(std::uint32_t id, float* buffer)>;

/// The best tile of the database for each of `places`, on io_threads() threads. `compared`:
/// candidates looked at in all.
[[nodiscard]] std::vector<tile_match> match_on_host(lsh_view const& index,
                                                    std::span<rgba_tile const> places,
                                                    histogram_source const& source,
                                                    std::uint64_t& compared);

}  // namespace gpufs::apps
