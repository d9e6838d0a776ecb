// Stores that are known to have reached memory, without a release.
#pragma once

#include <gpufs/device.hpp>
#include <gpufs/warp.hpp>

#include <cstddef>
#include <cstdint>

namespace gpufs {

// On the GPU a release waits for every load that its multiprocessor has on the way. Where many
// warps pull pages over the bus, each for itself, there is always one on the way, and a release
// takes some hundred microseconds. What is needed is less: that a thread's stores have been
// performed before it, or another thread that it has met at a barrier since, makes them known. A
// thread knows that when it has loaded them back from memory: its accesses to one address, and
// those of its warp, are performed in order, in the one place (the L2's) that the address has,
// where all other threads' loads that follow an acquire find them. The PTX memory model has no such
// rule; the hardware leaves no other way. Elsewhere a release costs next to nothing, and that is
// what the code below does there.

#if defined(__CUDACC__)
/// The order of the store or add that makes settled stores known.
inline constexpr memory_order after_settling = memory_order_relaxed;

/// Returns when the loads that `mark` was made of have returned: the branch needs their values.
__device__ __forceinline__ void await_loads(std::uint32_t mark) {
  if (mark == 0x9e3779b9u) __nanosleep(1);  // any value would do
}

/// Returns when the calling thread's last stores to the objects have been performed: one trip for
/// all of them.
template <class... T>
__device__ __forceinline__ void settle(T const&... object) {
  await_loads((static_cast<std::uint32_t>(*static_cast<T const volatile*>(&object)) | ...));
}

/// Returns when the stores of the `lanes` of a warp to bytes [begin, end) of a frame have been
/// performed. All of them call, the calling one being number `rank` of `n`. What one has stored
/// another loads back: they meet first, and have one way to memory.
__device__ __forceinline__ void settle_frame(std::byte const* frame, std::uint64_t begin,
                                             std::uint64_t end, unsigned lanes, unsigned rank,
                                             unsigned n) {
  constexpr std::uint64_t sector = 32;  // bytes that go to memory together
  constexpr unsigned together =
      16;  // loads under way per lane: one trip for all that a warp pulls at a time
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

/// The word as it is when the loads that `mark` was made of have returned: what the reader of a
/// sequence looks at last.
__device__ __forceinline__ std::uint64_t load_behind(std::uint64_t& word, std::uint32_t mark) {
  await_loads(mark);
  return atomic_ref<std::uint64_t, scope::device>(word).load(memory_order_relaxed);
}
#else
inline constexpr memory_order after_settling = memory_order_release;
inline void await_loads(std::uint32_t) {}
// A read-modify-write that releases: who changes the word after that, with an acquire, comes after
// the loads.
inline std::uint64_t load_behind(std::uint64_t& word, std::uint32_t) {
  return atomic_ref<std::uint64_t, scope::device>(word).fetch_add(0, memory_order_acq_rel);
}
template <class... T>
void settle(T const&...) {}
inline void settle_frame(std::byte const*, std::uint64_t, std::uint64_t, unsigned, unsigned,
                         unsigned) {}
#endif

}  // namespace gpufs
