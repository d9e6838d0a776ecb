// Generated graphs, like those that the BaM paper searches (Table 3).
#pragma once

#include <apps/analytics/graph/csr_graph.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace gpufs::apps::analytics {

/// kron    R-MAT with 0.57, 0.19, 0.19, 0.05 and 16 edges per vertex, as GAP-kron.
/// urand   Both ends uniform, 16 edges per vertex, as GAP-urand.
/// social  R-MAT with 0.45, 0.22, 0.22, 0.11 and 27 edges per vertex, for Friendster.
/// dense   kron with 110 edges per vertex, for MOLIERE.
/// deep    Communities in a row, for a crawl of the web: about as many levels as communities.
/// grid    A torus of 4 neighbours each, for roads.
[[nodiscard]] std::vector<std::string> generator_names();

/// From 2^lowest_scale to 2^highest_scale vertices.
inline constexpr unsigned lowest_scale = 4, highest_scale = 32;

/// Edges that are drawn for a graph of 2^scale vertices. It has each twice, but for a few loops,
/// which are dropped. Throws usage_error for another name.
[[nodiscard]] std::uint64_t edges_drawn(std::string_view name, unsigned scale);

/// A graph of 2^scale vertices. It depends on the three arguments alone. Throws usage_error for
/// another name.
[[nodiscard]] csr_graph generate_graph(std::string_view name, unsigned scale, std::uint64_t seed);

}  // namespace gpufs::apps::analytics
