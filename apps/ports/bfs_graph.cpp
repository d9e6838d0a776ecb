#include <apps/common/generator.hpp>
#include <apps/common/host_file.hpp>
#include <apps/common/program.hpp>
#include <apps/harness/data_set.hpp>
#include <apps/harness/parallel.hpp>
#include <apps/ports/bfs_graph.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <mutex>

namespace gpufs::apps {

namespace {

/// What node `u` draws.
struct draws {
  std::uint64_t seed;
  std::uint64_t nodes;
  [[nodiscard]] unsigned count(std::uint64_t u) const {
    return 2 + static_cast<unsigned>(generate_below(seed, u * 8, 3));
  }
  [[nodiscard]] std::uint64_t neighbour(std::uint64_t u, unsigned k) const {
    return generate_below(seed, u * 8 + 1 + k, nodes);
  }
};

}  // namespace

struct random_graph::contents {
  draws drawn;
  std::once_flag built;
  std::vector<std::byte> bytes;

  void build(graph_header const& h) {
    bytes.resize(file_bytes(h));
    std::memcpy(bytes.data(), &h, sizeof(h));
    auto* const nodes = reinterpret_cast<graph_node*>(bytes.data() + h.node_offset);
    auto* const edges = reinterpret_cast<std::int32_t*>(bytes.data() + h.edge_offset);
    auto const for_each_edge = [&](auto const& use) {
      for (std::uint64_t u = 0; u < h.nodes; ++u) {
        for (unsigned k = 0, n = drawn.count(u); k < n; ++k) use(u, drawn.neighbour(u, k));
      }
    };
    for_each_edge([&](std::uint64_t u, std::uint64_t v) {
      ++nodes[u].degree;
      ++nodes[v].degree;
    });
    std::int32_t at = 0;
    for (std::uint64_t u = 0; u < h.nodes; ++u) at += nodes[u].degree, nodes[u].start = at;
    // Filled from the end: start comes to stand at each node's first edge.
    for_each_edge([&](std::uint64_t u, std::uint64_t v) {
      edges[--nodes[u].start] = static_cast<std::int32_t>(v);
      edges[--nodes[v].start] = static_cast<std::int32_t>(u);
    });
  }
};

random_graph::random_graph(std::uint64_t nodes, std::uint64_t seed)
    : contents_(std::make_shared<contents>()) {
  contents_->drawn = {seed, nodes};
  std::uint64_t drawn = 0;
  for (std::uint64_t u = 0; u < nodes; ++u) drawn += contents_->drawn.count(u);
  header_ = make_header(nodes, 2 * drawn);
}

void random_graph::fill(std::uint64_t offset, std::span<std::byte> to) const {
  std::call_once(contents_->built, [&] { contents_->build(header_); });
  std::copy_n(contents_->bytes.begin() + static_cast<std::ptrdiff_t>(offset), to.size(),
              to.begin());
}

graph_header check_graph(std::string const& path) {
  host_file const file(path);
  graph_header h{};
  if (file.size() >= sizeof(h)) file.read(&h, sizeof(h), 0);
  graph_header const right = make_header(h.nodes, h.edges);
  if (h.magic != graph_magic || h.nodes == 0 || h.nodes > INT32_MAX || h.edges > INT32_MAX ||
      h.source >= h.nodes || h.node_offset != right.node_offset ||
      h.edge_offset != right.edge_offset || file.size() != file_bytes(right)) {
    throw usage_error(
        fmt::format("--input={}: must be a graph file as scripts/fetch_data.py makes them", path));
  }
  mapped_file const map(file);
  graph_view const graph = view_graph(h, map.bytes().data());
  std::uint64_t const u = parallel_find(h.nodes, [&](std::uint64_t i) {
    graph_node const n = graph.nodes[i];
    return n.start < 0 || n.degree < 0 ||
           std::int64_t{n.start} + n.degree > static_cast<std::int64_t>(h.edges);
  });
  if (u != h.nodes) {
    throw usage_error(
        fmt::format("--input={}: node {} has start {} and degree {}: both must be from 0, and "
                    "their sum at most {}, the "
                    "number of edges",
                    path, u, graph.nodes[u].start, graph.nodes[u].degree, h.edges));
  }
  std::uint64_t const e = parallel_find(h.edges, [&](std::uint64_t i) {
    return graph.edges[i] < 0 || static_cast<std::uint64_t>(graph.edges[i]) >= h.nodes;
  });
  if (e != h.edges) {
    throw usage_error(fmt::format("--input={}: edge {} leads to node {}: must be from 0 to {}",
                                  path, e, graph.edges[e], h.nodes - 1));
  }
  return h;
}

std::vector<std::int32_t> levels_of(graph_view const& graph) {
  std::vector<std::int32_t> levels(graph.header.nodes, -1);
  std::vector<std::uint32_t> queue{static_cast<std::uint32_t>(graph.header.source)};
  queue.reserve(graph.header.nodes);
  levels[graph.header.source] = 0;
  for (std::size_t head = 0; head < queue.size(); ++head) {
    std::uint32_t const u = queue[head];
    graph_node const n = graph.nodes[u];
    for (std::int32_t e = n.start; e < n.start + n.degree; ++e) {
      auto const v = static_cast<std::uint32_t>(graph.edges[e]);
      if (levels[v] >= 0) continue;
      levels[v] = levels[u] + 1;
      queue.push_back(v);
    }
  }
  return levels;
}

std::string check_levels(graph_view const& graph, std::span<std::int32_t const> levels) {
  std::uint64_t const nodes = graph.header.nodes;
  std::uint64_t const wrong = parallel_find(nodes, [&](std::uint64_t u) {
    std::int32_t const level = levels[u];
    if (level < -1 || (level == 0) != (u == graph.header.source)) return true;
    graph_node const n = graph.nodes[u];
    bool has_parent = level <= 0;
    for (std::int32_t e = n.start; e < n.start + n.degree; ++e) {
      std::int32_t const other = levels[static_cast<std::uint32_t>(graph.edges[e])];
      if ((level < 0) != (other < 0) || std::abs(std::int64_t{level} - other) > 1) return true;
      has_parent |= other == level - 1;
    }
    return !has_parent;
  });
  if (wrong == nodes) return {};
  return fmt::format("level[{}] is {}, which does not go with its neighbours", wrong,
                     levels[wrong]);
}

}  // namespace gpufs::apps
