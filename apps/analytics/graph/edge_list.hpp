// Graphs of others: text files with an edge in each line.
#pragma once

#include <apps/analytics/graph/csr_graph.hpp>

#include <string>

namespace gpufs::apps::analytics {

/// Reads lines "u v" of numbers from 0 on, or a Matrix Market file (coordinate format, numbers from
/// 1 on), which says so in its first line. What follows the two numbers in a line is ignored, and
/// so are empty lines and those that begin with # or %. Edges count as undirected.
///
/// Throws usage_error naming file, line and what is wrong, std::runtime_error if the graph does not
/// fit into memory, or std::system_error.
[[nodiscard]] csr_graph read_edge_list(std::string const& path);

}  // namespace gpufs::apps::analytics
