// The graph file of BFS: a header, a record for each node, the edges. And the suite's generator of
// graphs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace gpufs::apps {

inline constexpr std::uint64_t graph_magic = 0x31534642'73667067;  // "gpfsBFS1"
inline constexpr std::uint64_t graph_page =
    4096;  // the header's size; sections begin at multiples of it

struct graph_header {
  std::uint64_t magic;
  std::uint64_t nodes;
  std::uint64_t edges;
  std::uint64_t source;
  std::uint64_t node_offset;
  std::uint64_t edge_offset;
};

struct graph_node {
  std::int32_t start;  ///< index of its first edge
  std::int32_t degree;
};

[[nodiscard]] constexpr graph_header make_header(std::uint64_t nodes, std::uint64_t edges) {
  std::uint64_t const node_bytes =
      (nodes * sizeof(graph_node) + graph_page - 1) / graph_page * graph_page;
  return {graph_magic, nodes, edges, 0, graph_page, graph_page + node_bytes};
}

[[nodiscard]] constexpr std::uint64_t file_bytes(graph_header const& h) {
  return h.edge_offset + h.edges * sizeof(std::int32_t);
}

/// A graph file's contents as they lie in memory, on the device or on the host.
struct graph_view {
  graph_header header;
  graph_node const* nodes;
  std::int32_t const* edges;
};

[[nodiscard]] inline graph_view view_graph(graph_header const& h, std::byte const* file) {
  return {h, reinterpret_cast<graph_node const*>(file + h.node_offset),
          reinterpret_cast<std::int32_t const*>(file + h.edge_offset)};
}

/// A random undirected graph: each node draws 2 to 4 neighbours, anywhere; loops and repetitions
/// stay. Every edge is there in both directions.
class random_graph {
 public:
  random_graph(std::uint64_t nodes, std::uint64_t seed);

  [[nodiscard]] graph_header const& header() const { return header_; }
  /// The contents of the file from `offset` on. Builds the graph at the first call. Thread-safe.
  void fill(std::uint64_t offset, std::span<std::byte> to) const;

 private:
  struct contents;
  graph_header header_;
  std::shared_ptr<contents> contents_;
};

/// The header of a graph file that lies at `path`, all of which is looked at: indices out of range
/// would lead anywhere. Throws usage_error naming --input, and the first node or edge that is
/// wrong. That every edge is there in both directions is not looked at.
[[nodiscard]] graph_header check_graph(std::string const& path);

/// The level of each node by a breadth-first search with a queue; -1 if it cannot be reached.
[[nodiscard]] std::vector<std::int32_t> levels_of(graph_view const& graph);

/// Proves that `levels` are the distances from the source: empty, or what is wrong. An undirected
/// graph has no other labelling in which the source alone has level 0, no edge joins nodes more
/// than one level apart or a reached and an unreached one, and every other reached node has a
/// neighbour one level nearer.
[[nodiscard]] std::string check_levels(graph_view const& graph,
                                       std::span<std::int32_t const> levels);

}  // namespace gpufs::apps
