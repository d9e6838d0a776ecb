// A graph in memory: the neighbours of each vertex, one list behind the other.
#pragma once

#include <apps/harness/parallel.hpp>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <vector>

namespace gpufs::apps::analytics {

/// Kernels keep numbers of vertices in 32 bits.
inline constexpr std::uint64_t most_vertices = std::uint64_t{1} << 32;

/// An undirected edge, or one of its two directions.
struct edge {
  std::uint64_t from;
  std::uint64_t to;
};

/// Compressed sparse rows. The neighbours of v are edges[offsets[v]] to edges[offsets[v + 1] - 1],
/// in ascending order. Each edge is there in both directions.
struct csr_graph {
  std::vector<std::uint64_t> offsets;
  std::vector<std::uint64_t> edges;

  [[nodiscard]] std::uint64_t vertices() const { return offsets.size() - 1; }
};

/// The graph of the edges draw(0) to draw(count - 1), which is called by several threads, twice for
/// each edge. Loops are dropped, repeated edges stay. The result does not depend on the threads.
template <class Draw>
csr_graph build_graph(std::uint64_t vertices, std::uint64_t count, Draw const& draw) {
  constexpr std::uint64_t range = 1 << 16;
  csr_graph g;
  g.offsets.assign(vertices + 1, 0);
  auto const for_each_direction = [&](auto const& use) {
    parallel_for(count, range, [&](std::uint64_t k) {
      edge const e = draw(k);
      if (e.from == e.to) return;
      use(e.from, e.to);
      use(e.to, e.from);
    });
  };
  // Relaxed: the threads end before the counts are read.
  for_each_direction([&](std::uint64_t from, std::uint64_t) {
    std::atomic_ref(g.offsets[from]).fetch_add(1, std::memory_order_relaxed);
  });
  std::uint64_t sum = 0;
  for (auto& o : g.offsets) sum += o, o = sum;
  g.edges.resize(sum);
  // Lists are filled from their ends. Each offset comes to stand at the beginning of its list.
  for_each_direction([&](std::uint64_t from, std::uint64_t to) {
    g.edges[std::atomic_ref(g.offsets[from]).fetch_sub(1, std::memory_order_relaxed) - 1] = to;
  });
  parallel_for(vertices, range, [&](std::uint64_t v) {
    auto const begin = g.edges.begin();
    std::sort(begin + static_cast<std::ptrdiff_t>(g.offsets[v]),
              begin + static_cast<std::ptrdiff_t>(g.offsets[v + 1]));
  });
  return g;
}

}  // namespace gpufs::apps::analytics
