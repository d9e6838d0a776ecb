// Stores that are known to have reached memory, without a release.
#pragma once

#include <gpufs/base/warp.hpp>
#include <gpufs/device.hpp>

#include <cstddef>
#include <cstdint>

namespace gpufs::base {

// Problem: on the GPU a release waits for every load of its multiprocessor. During pulls these
// loads take hundreds of microseconds.
// Trick: load the stored words back and wait for the values. The stores are then in the L2, where
// all threads find them. After that a relaxed store may announce them, also by another thread of
// the block that met this one at a barrier.
//
// Assumption: a warp's accesses to one address reach the L2 in order. The hardware does so. The PTX
// memory model does not promise it. Tests: page_table_test and differential_test on a GPU.
//
// On other devices a release costs next to nothing, and the code below uses one.

#if defined(__CUDACC__)
/// Memory order of the store or add that announces settled stores.
inline constexpr memory_order after_settling = memory_order_relaxed;

/// Returns when the loads that `mark` was made of have returned. Any thread calls. The branch needs
/// their values.
__device__ __forceinline__ void await_loads(std::uint32_t mark) {
  if (mark == 0x9e3779b9u) __nanosleep(1);  // any constant works
}

/// Returns when the calling thread's last stores to the objects have reached memory. All objects
/// together cost one trip.
template <class... T>
__device__ __forceinline__ void settle(T const&... object) {
  await_loads((static_cast<std::uint32_t>(*static_cast<T const volatile*>(&object)) | ...));
}

/// Returns when the stores of `lanes` to bytes [begin, end) of a frame have reached memory. All of
/// `lanes` call; the caller is number `rank` of `n`. A lane may load back another lane's store.
/// This works because the lanes meet first and share one way to memory.
__device__ __forceinline__ void settle_frame(std::byte const* frame, std::uint64_t begin,
                                             std::uint64_t end, unsigned lanes, unsigned rank,
                                             unsigned n) {
  constexpr std::uint64_t sector = 32;  // bytes that go to memory together
  // loads under way per lane; a warp's slice takes one trip
  constexpr unsigned together = 16;
  __syncwarp(lanes);
  std::uint32_t mark = 0;
  for (std::uint64_t at = begin / sector * sector + rank * sector; at < end;
       at += std::uint64_t{n} * sector * together) {
    std::uint32_t word[together];
    GPUFS_UNROLL
    for (unsigned u = 0; u < together; ++u) {
      std::uint64_t const next = at + std::uint64_t{n} * sector * u;
      word[u] = next < end ? *reinterpret_cast<std::uint32_t const volatile*>(frame + next) : 0;
    }
    GPUFS_UNROLL
    for (unsigned u = 0; u < together; ++u) mark |= word[u];
  }
  await_loads(mark);
}

/// Loads the word after the loads that `mark` was made of have returned. Any thread calls. A reader
/// of a sequence makes this its last look.
__device__ __forceinline__ std::uint64_t load_behind(std::uint64_t& word, std::uint32_t mark) {
  await_loads(mark);
  return atomic_ref<std::uint64_t, scope::device>(word).load(memory_order_relaxed);
}
#else
inline constexpr memory_order after_settling = memory_order_release;
inline void await_loads(std::uint32_t) {}
// A read-modify-write with release. A thread that then changes the word with an acquire comes after
// the loads.
inline std::uint64_t load_behind(std::uint64_t& word, std::uint32_t) {
  return atomic_ref<std::uint64_t, scope::device>(word).fetch_add(0, memory_order_acq_rel);
}
template <class... T>
void settle(T const&...) {}
inline void settle_frame(std::byte const*, std::uint64_t, std::uint64_t, unsigned, unsigned,
                         unsigned) {}
#endif

}  // namespace gpufs::base
