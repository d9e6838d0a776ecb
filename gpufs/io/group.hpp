// What the file API needs of the group that calls it: its warps, a barrier, a vote, a broadcast,
// shared scratch.
#pragma once

#include <gpufs/device.hpp>
#include <gpufs/io/page_entry.hpp>
#include <gpufs/warp.hpp>

#include <cstdint>
#include <type_traits>

namespace gpufs {

/// Bits of a batch's pages, bit i for page i: what the hit path leaves over.
struct missing_pages {
  std::uint32_t todo = 0;    ///< not delivered
  std::uint32_t absent = 0;  ///< of these, nobody was bringing them in
};

/// Bits of a batch's pages after a step of the warp that manages them.
struct batch_step {
  std::uint32_t moving = 0;        ///< bytes to be pulled or copied by the group's warps
  std::uint32_t waiting = 0;       ///< another caller is bringing them in
  std::uint32_t again = 0;         ///< nothing is held; to be tried again
  std::uint32_t chunk_failed = 0;  ///< of these, a prefetch chunk failed or came short
  std::uint32_t mapped = 0;        ///< of those moving, pulled out of windows
};

/// Shared memory of a block for its collective calls, about 1 KB. Calls of one block follow each
/// other, with barriers between uses, so that all its contexts share it.
struct block_scratch {
  page_entry entry[batch_pages];
  std::uint64_t value[4];
  std::uint64_t stop;
  missing_pages missing;  ///< gathered; 0 between batches
  batch_step step;
  std::uint32_t next_unit;  ///< of work that warps take in turn
};

__device__ __forceinline__ block_scratch& scratch() {
  __shared__ block_scratch s;
  return s;
}

template <class Group>
inline constexpr bool is_block = std::is_same_v<Group, cooperative_groups::thread_block>;

/// A 32-thread tile: one warp, everything through shuffles.
template <class Group>
struct group_ops {
  static_assert(!is_block<Group>);
  __device__ static unsigned warps(Group const& g) { return g.size() == warp_size ? 1 : 0; }
  __device__ static unsigned warp(Group const&) { return 0; }
  __device__ static void sync(Group const& g) { g.sync(); }
  __device__ static bool any(Group const& g, bool mine) { return g.any(mine); }
  __device__ static std::uint64_t broadcast(Group const&, std::uint64_t value) {
    return warp_broadcast(value);
  }
  /// The first thread's four values, in every thread.
  __device__ static void broadcast(Group const&, std::uint64_t (&value)[4]) {
    for (auto& v : value) v = warp_broadcast(v);
  }
  /// any(), and if so the union of the warps' bits is left for the first warp, which takes it with
  /// take_missing().
  __device__ static bool any_missing(Group const& g, bool mine, missing_pages const&) {
    return g.any(mine);
  }
  __device__ static missing_pages take_missing(missing_pages const& own) { return own; }
  /// Whether page i is among them. Between any_missing() and the next barrier.
  __device__ static bool is_missing(missing_pages const& own, unsigned i) {
    return (own.todo >> i & 1) != 0;
  }
  /// The first warp's step in every thread, behind a barrier.
  __device__ static batch_step share(Group const& g, batch_step const& step) {
    g.sync();
    return step;
  }
  /// Lane i's entry is kept where the result points to; the one of page i, in every lane.
  __device__ static page_entry* home(page_entry& own) { return &own; }
  __device__ static page_entry look(page_entry const& own, int i) { return warp_broadcast(own, i); }
  /// The next unit of work for this warp, the caller's `last` being the one before (-1: none); each
  /// goes to one warp.
  __device__ static unsigned next_unit(unsigned last) { return last + 1; }
  /// The smallest value of the group's leaders of warps, in every thread.
  __device__ static std::uint64_t smallest(Group const&, std::uint64_t value) { return value; }
};

/// A threadblock. Its full warps do the work; threads of a last partial warp only take part in
/// barriers.
template <>
struct group_ops<cooperative_groups::thread_block> {
  using group = cooperative_groups::thread_block;
  __device__ static unsigned warps(group const& g) {
    return static_cast<unsigned>(g.size()) / warp_size;
  }
  __device__ static unsigned warp(group const& g) {
    return static_cast<unsigned>(g.thread_rank()) / warp_size;
  }
  __device__ static void sync(group const&) { __syncthreads(); }
  __device__ static bool any(group const&, bool mine) { return __syncthreads_or(mine) != 0; }
  __device__ static std::uint64_t broadcast(group const& g, std::uint64_t value) {
    __syncthreads();  // the last use of value[0] is over
    if (g.thread_rank() == 0) scratch().value[0] = value;
    __syncthreads();
    return scratch().value[0];
  }
  __device__ static void broadcast(group const& g, std::uint64_t (&value)[4]) {
    __syncthreads();  // the last use of value[] is over
    if (g.thread_rank() == 0) {
      for (unsigned i = 0; i < 4; ++i) scratch().value[i] = value[i];
    }
    __syncthreads();
    for (unsigned i = 0; i < 4; ++i) value[i] = scratch().value[i];
  }
  __device__ static bool any_missing(group const& g, bool mine, missing_pages const& bits) {
    if (lane_id() == 0 && warp(g) < warps(g)) {
      // Relaxed: the barrier orders them before the first warp's look.
      if (bits.todo != 0)
        atomic_ref<std::uint32_t, scope::block>(scratch().missing.todo)
            .fetch_or(bits.todo, memory_order_relaxed);
      if (bits.absent != 0)
        atomic_ref<std::uint32_t, scope::block>(scratch().missing.absent)
            .fetch_or(bits.absent, memory_order_relaxed);
    }
    return __syncthreads_or(mine) != 0;
  }
  __device__ static bool is_missing(missing_pages const&, unsigned i) {
    return (scratch().missing.todo >> i & 1) != 0;
  }
  __device__ static missing_pages take_missing(missing_pages const&) { return scratch().missing; }
  __device__ static batch_step share(group const& g, batch_step const& step) {
    if (g.thread_rank() == 0) {
      scratch().step = step;
      scratch().next_unit = 0;
    }
    __syncthreads();
    if (g.thread_rank() == 0) scratch().missing = {};  // everybody is done with it
    return scratch().step;
  }
  __device__ static page_entry* home(page_entry&) { return &scratch().entry[lane_id()]; }
  __device__ static page_entry look(page_entry const&, int i) { return scratch().entry[i]; }
  __device__ static unsigned next_unit(unsigned) {
    std::uint32_t unit = 0;
    if (lane_id() == 0)
      unit = atomic_ref<std::uint32_t, scope::block>(scratch().next_unit)
                 .fetch_add(1, memory_order_relaxed);
    return warp_broadcast(unit);
  }
  __device__ static std::uint64_t smallest(group const& g, std::uint64_t value) {
    __syncthreads();
    if (g.thread_rank() == 0) scratch().stop = ~0ull;
    __syncthreads();
    if (lane_id() == 0 && warp(g) < warps(g)) {
      atomic_ref<std::uint64_t, scope::block>(scratch().stop)
          .fetch_min(value, memory_order_relaxed);
    }
    __syncthreads();
    return scratch().stop;
  }
};

}  // namespace gpufs
