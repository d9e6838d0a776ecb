#include <apps/analytics/graph/reference.hpp>
#include <apps/harness/parallel.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace gpufs::apps::analytics {

namespace {

std::span<std::uint64_t const> neighbours(graph_file const& g, std::uint64_t v) {
  return {g.edges() + g.offsets()[v], g.degree(v)};
}

}  // namespace

std::vector<std::uint32_t> levels_by_queue(graph_file const& g, std::uint64_t source) {
  std::vector<std::uint32_t> levels(g.header().vertices, no_level);
  std::vector<std::uint64_t> queue{source};
  levels[source] = 0;
  for (std::size_t head = 0; head < queue.size(); ++head) {
    for (std::uint64_t const w : neighbours(g, queue[head])) {
      if (levels[w] != no_level) continue;
      levels[w] = levels[queue[head]] + 1;
      queue.push_back(w);
    }
  }
  return levels;
}

std::vector<std::uint32_t> components_by_union(graph_file const& g) {
  std::vector<std::uint32_t> parent(g.header().vertices);
  std::iota(parent.begin(), parent.end(), 0u);
  auto const root = [&](std::uint32_t v) {
    for (; parent[v] != v; v = parent[v]) parent[v] = parent[parent[v]];
    return v;
  };
  for (std::uint64_t v = 0; v < parent.size(); ++v) {
    for (std::uint64_t const w : neighbours(g, v)) {
      auto const a = root(static_cast<std::uint32_t>(v)), b = root(static_cast<std::uint32_t>(w));
      parent[std::max(a, b)] = std::min(a, b);  // so that a root is its component's smallest
    }
  }
  for (std::uint64_t v = 0; v < parent.size(); ++v) parent[v] = root(static_cast<std::uint32_t>(v));
  return parent;
}

std::string check_levels(graph_file const& g, std::uint64_t source,
                         std::span<std::uint32_t const> levels) {
  std::uint64_t const wrong = parallel_find(levels.size(), [&](std::uint64_t v) {
    std::int64_t const level = levels[v];
    if ((level == 0) != (v == source)) return true;
    bool has_nearer = level == 0 || level == no_level;
    for (std::uint64_t const w : neighbours(g, v)) {
      std::int64_t const other = levels[w];
      if ((level == no_level) != (other == no_level) || std::abs(level - other) > 1) return true;
      has_nearer |= other == level - 1;
    }
    return !has_nearer;
  });
  if (wrong == levels.size()) return {};
  return fmt::format("level[{}] is {}, which does not go with its neighbours", wrong,
                     levels[wrong]);
}

std::string check_components(graph_file const& g, std::span<std::uint32_t const> components) {
  std::uint64_t const wrong = parallel_find(components.size(), [&](std::uint64_t v) {
    std::uint32_t const c = components[v];
    if (c > v || components[c] != c) return true;
    auto const all = neighbours(g, v);
    return std::ranges::any_of(all, [&](std::uint64_t w) { return components[w] != c; });
  });
  if (wrong == components.size()) return {};
  return fmt::format("component[{}] is {}, which does not go with its neighbours", wrong,
                     components[wrong]);
}

}  // namespace gpufs::apps::analytics
