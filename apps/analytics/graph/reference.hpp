// The host's searches of graphs, and proofs that results are right.
#pragma once

#include <apps/analytics/graph/graph_file.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace gpufs::apps::analytics {

/// The level of a vertex that cannot be reached.
inline constexpr std::uint32_t no_level = 0xffffffff;

/// The level of each vertex, seen from `source`, by a queue.
[[nodiscard]] std::vector<std::uint32_t> levels_by_queue(graph_file const& g, std::uint64_t source);

/// The smallest vertex of each vertex's component, by union-find.
[[nodiscard]] std::vector<std::uint32_t> components_by_union(graph_file const& g);

// The others return what is wrong, or an empty text.

/// Proves that these are the levels. Of an undirected graph there is one labelling in which the
/// source alone has level 0, edges join neither vertices more than a level apart nor a reached and
/// an unreached one, and each other reached vertex has a neighbour one level nearer.
[[nodiscard]] std::string check_levels(graph_file const& g, std::uint64_t source,
                                       std::span<std::uint32_t const> levels);

/// Checks that components have one number along each edge, that of one of their own vertices, which
/// is no larger than any of them. It does not see components that were put together.
[[nodiscard]] std::string check_components(graph_file const& g,
                                           std::span<std::uint32_t const> components);

}  // namespace gpufs::apps::analytics
