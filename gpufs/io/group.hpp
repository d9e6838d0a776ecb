// What the file API needs of the group that calls it: its warps, a barrier, a vote, a broadcast, shared scratch.
#pragma once

#include <gpufs/device.hpp>
#include <gpufs/warp.hpp>

#include <cstdint>
#include <type_traits>

namespace gpufs {

/// A page that a team of warps works on together; lives in the block's scratch.
struct team_entry {
  std::uint32_t status;
  std::uint32_t frame;
  std::uint32_t channel_number;
  std::uint32_t channel_sequence;
  std::uint64_t got;
  std::int32_t error;
  std::uint32_t chunk_offset;
  std::int32_t answer;     ///< the daemon's result
  std::uint32_t answered;  ///< 1: the daemon has answered; 0: given up
};

/// Shared memory of a block for its collective calls, about 1.5 KB. Calls of one block follow each other, with barriers between uses, so
/// that all its contexts share it.
struct block_scratch {
  team_entry entry[warp_size];
  std::uint64_t value[4];
  std::uint64_t stop;
  std::uint32_t bits[2];  ///< gathered, see gathering; 0 between calls
};

/// What bits are gathered for. Each has a word of its own, so that one can be cleared while the next is gathered.
enum class gathering : unsigned { absent, fetching };

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
  __device__ static std::uint64_t broadcast(Group const&, std::uint64_t value) { return warp_broadcast(value); }
  /// The first thread's four values, in every thread.
  __device__ static void broadcast(Group const&, std::uint64_t (&value)[4]) {
    for (auto& v : value) v = warp_broadcast(v);
  }
  /// The bits that the group's warps have set, in every thread. If there are any, a sync() and then gathered() must follow, and another
  /// barrier before the next gathering of the same kind.
  __device__ static std::uint32_t gather(Group const&, gathering, std::uint32_t bits) { return bits; }
  __device__ static void gathered(Group const&, gathering) {}
  /// The smallest value of the group's leaders of warps, in every thread.
  __device__ static std::uint64_t smallest(Group const&, std::uint64_t value) { return value; }
};

/// A threadblock. Its full warps do the work; threads of a last partial warp only take part in barriers.
template <>
struct group_ops<cooperative_groups::thread_block> {
  using group = cooperative_groups::thread_block;
  __device__ static unsigned warps(group const& g) { return static_cast<unsigned>(g.size()) / warp_size; }
  __device__ static unsigned warp(group const& g) { return static_cast<unsigned>(g.thread_rank()) / warp_size; }
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
  __device__ static std::uint32_t gather(group const& g, gathering what, std::uint32_t bits) {
    std::uint32_t& all = scratch().bits[static_cast<unsigned>(what)];
    if (bits != 0 && lane_id() == 0 && warp(g) < warps(g)) {
      atomic_ref<std::uint32_t, scope::block>(all).fetch_or(bits, memory_order_relaxed);
    }
    __syncthreads();
    return all;
  }
  __device__ static void gathered(group const& g, gathering what) {
    if (g.thread_rank() == 0) scratch().bits[static_cast<unsigned>(what)] = 0;
  }
  __device__ static std::uint64_t smallest(group const& g, std::uint64_t value) {
    __syncthreads();
    if (g.thread_rank() == 0) scratch().stop = ~0ull;
    __syncthreads();
    if (lane_id() == 0 && warp(g) < warps(g)) {
      atomic_ref<std::uint64_t, scope::block>(scratch().stop).fetch_min(value, memory_order_relaxed);
    }
    __syncthreads();
    return scratch().stop;
  }
};

}  // namespace gpufs
