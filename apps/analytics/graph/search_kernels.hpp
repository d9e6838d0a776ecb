// The kernels of a search. A warp takes groups of vertices and visits the lists of those that are
// in the frontier. The neighbours' file is one of sources.hpp.
#pragma once

#include <gpufs/gpufs.hpp>

#include <apps/analytics/graph/reference.hpp>
#include <apps/analytics/graph/search_job.hpp>
#include <apps/analytics/sources.hpp>
#include <apps/analytics/strided.hpp>

#include <cstdint>

namespace gpufs::apps::analytics {

namespace detail {

// Relaxed throughout: racing stores write the same value, minima are taken by one operation, and
// the next kernel sees all of it.

template <class T>
__device__ T load(T const& word) {
  return atomic_ref<T, scope::device>(const_cast<T&>(word)).load(memory_order_relaxed);
}
template <class T>
__device__ void store(T& word, T value) {
  atomic_ref<T, scope::device>(word).store(value, memory_order_relaxed);
}

/// Whether w is a vertex. Notes the edge if it is not.
__device__ inline bool is_vertex(search_job const& job, std::uint64_t e, std::uint64_t w) {
  if (w < job.vertices) return true;
  store(job.words->wrong_edge, e + 1);
  return false;
}

/// Adds a vertex to the next frontier.
__device__ inline void enqueue(search_job const& job, std::uint64_t w) {
  std::uint64_t const place = atomic_ref<std::uint64_t, scope::device>(job.words->queued)
                                  .fetch_add(1, memory_order_relaxed);
  job.next_frontier[place] = static_cast<vertex>(w);
}

}  // namespace detail

/// Breadth-first search. expand() is called for each edge that leaves the frontier.
struct level_pass {
  __device__ static bool wants(search_job const& job, std::uint64_t v) {
    return job.frontier != nullptr || detail::load(job.values[v]) == job.level;
  }

  __device__ static void expand(search_job const& job, std::uint64_t, std::uint64_t w) {
    std::uint32_t& level = job.values[w];
    if (detail::load(level) != no_level) return;
    if (job.frontier == nullptr) {
      detail::store(level, job.level + 1);
      detail::store(job.words->is_changed, std::uint64_t{1});
      return;
    }
    std::uint32_t unset = no_level;
    if (atomic_ref<std::uint32_t, scope::device>(level).compare_exchange_strong(
            unset, job.level + 1, memory_order_relaxed))
      detail::enqueue(job, w);
  }
};

/// Connected components by labels: the larger of two neighbours' labels becomes the smaller one.
struct label_pass {
  __device__ static bool wants(search_job const& job, std::uint64_t v) {
    return job.active[v] != 0;
  }

  __device__ static void expand(search_job const& job, std::uint64_t v, std::uint64_t w) {
    std::uint32_t const a = detail::load(job.values[v]), b = detail::load(job.values[w]);
    if (a == b) return;
    std::uint64_t const larger = a > b ? v : w;
    std::uint32_t const smaller = a > b ? b : a;
    if (atomic_ref<std::uint32_t, scope::device>(job.values[larger])
            .fetch_min(smaller, memory_order_relaxed) <= smaller)
      return;
    detail::store(job.next_active[larger], 1u);
    detail::store(job.words->is_changed, std::uint64_t{1});
  }
};

/// One pass. Any number of blocks works on all groups.
template <class Pass, class Source>
__global__ void __launch_bounds__(32 * most_warps)
    search_pass(typename Source::files files, Source source, search_job job) {
  __shared__ std::uint64_t pieces[most_warps][piece_bytes / sizeof(std::uint64_t)];
  warp_context<typename Source::files> context(files);
  typename Source::reader lists(source, context, pieces[threadIdx.x / base::warp_size]);
  std::uint64_t const count = job.frontier != nullptr ? job.frontier_count : job.vertices;
  std::uint64_t const groups = (count + group_vertices - 1) / group_vertices;
  std::uint64_t const warps = std::uint64_t{gridDim.x} * blockDim.x / base::warp_size;
  for (std::uint64_t turn = base::warp_number(); turn < groups; turn += warps) {
    if (has_failed(&job.words->error)) break;
    std::uint64_t const first = part_at_turn(turn, groups, job.stride) * group_vertices;
    for (std::uint64_t k = first; k < first + group_vertices && k < count; ++k) {
      std::uint64_t const v = job.frontier != nullptr ? job.frontier[k] : k;
      if (!Pass::wants(job, v)) continue;
      lists.visit(job.offsets[v], job.offsets[v + 1], [&](std::uint64_t e, std::uint64_t w) {
        if (detail::is_vertex(job, e, w)) Pass::expand(job, v, w);
      });
      note_error(&job.words->error, 0, lists.error());
    }
    if (job.holds_little) lists.release();
  }
}

}  // namespace gpufs::apps::analytics
