// What the kernels of a search work on.
#pragma once

#include <apps/analytics/kernel_errors.hpp>

#include <cstdint>

namespace gpufs::apps::analytics {

using vertex = std::uint32_t;

/// Vertices that a warp takes at a time, one behind the other.
inline constexpr std::uint64_t group_vertices = 8;

/// Words in device memory that kernels change during a pass.
struct search_words {
  std::uint64_t queued;      ///< vertices of the next frontier
  std::uint64_t is_changed;  ///< 1: there will be another pass
  std::uint64_t wrong_edge;  ///< number of an edge that leads nowhere, plus one
  error_word error;
};

/// Pointers are to device memory.
struct search_job {
  std::uint64_t vertices;
  std::uint64_t const* offsets;
  std::uint32_t* values;         ///< levels, or components
  std::uint32_t level;           ///< bfs: of the vertices whose neighbours are looked at
  vertex const* frontier;        ///< queue: those vertices, null: scan
  std::uint64_t frontier_count;  ///< queue
  vertex* next_frontier;         ///< queue
  std::uint32_t const* active;   ///< cc: 1: the vertex changed in the last pass
  std::uint32_t* next_active;    ///< cc
  std::uint64_t stride;
  bool holds_little;  ///< pages are given back after each group: there are few frames
  search_words* words;
};

}  // namespace gpufs::apps::analytics
