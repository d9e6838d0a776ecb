// Stores that are known to have reached memory, without a release.
#pragma once

#include <gpufs/base/warp.hpp>
#include <gpufs/device.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace gpufs::base {

// Problem: on the GPU a release waits for every load of its multiprocessor. During pulls these
// loads take hundreds of microseconds.
// Trick: load the stored words back and wait for the values. The stores are then in the L2, where
// all threads find them. After that a relaxed store may announce them, also by another thread of
// the block that met this one at a barrier.
//
// Assumption: a warp's accesses to one address reach the L2 in order. The hardware does so. The PTX
// memory model does not promise it. docs/memory-model.md has the argument and the tests.
//
// On other devices a release costs next to nothing, and the code below uses one.

/// What await_loads() compares a mark with. Any constant works.
inline constexpr std::uint32_t awaited = 0x9e3779b9u;

/// Bits of a loaded value for await_loads(). Marks of several loads are combined by `|`. A value of
/// 1 or 2 bytes has no high bits, so its mark has those of the constant. Else the compiler would
/// see that the comparison fails, and would drop the wait.
template <class T>
__device__ constexpr std::uint32_t mark_of(T value) {
  static_assert(std::is_unsigned_v<T>);
  return static_cast<std::uint32_t>(value) |
         (awaited & ~static_cast<std::uint32_t>(std::numeric_limits<T>::max()));
}

#if defined(__CUDACC__)
/// Memory order of the store or add that announces settled stores.
inline constexpr memory_order after_settling = memory_order_relaxed;

/// Returns when the loads that `mark` was made of have returned. Any thread calls. The branch needs
/// their values.
__device__ __forceinline__ void await_loads(std::uint32_t mark) {
  if (mark == awaited) __nanosleep(1);
}

/// Returns when the calling thread's last stores to the objects have reached memory. All objects
/// together cost one trip.
template <class... T>
__device__ __forceinline__ void settle(T const&... object) {
  await_loads((mark_of<T>(*static_cast<T const volatile*>(&object)) | ...));
}

/// Returns when the stores of `lanes` to bytes [begin, end) of a frame have reached memory. All of
/// `lanes` call; the caller is number `rank` of `n`. A lane may load back another lane's store.
/// This works because the lanes meet first and share one way to memory.
__device__ __forceinline__ void settle_frame(std::byte const* frame, std::uint32_t begin,
                                             std::uint32_t end, unsigned lanes, unsigned rank,
                                             unsigned n) {
  constexpr std::uint32_t sector = 32;  // bytes that go to memory together
  // loads under way per lane; a warp's slice takes one trip
  constexpr unsigned together = 16;
  __syncwarp(lanes);
  std::uint32_t mark = 0;
  for (std::uint32_t at = begin / sector * sector + rank * sector; at < end;
       at += n * sector * together) {
    std::uint32_t word[together];
    GPUFS_UNROLL
    for (unsigned u = 0; u < together; ++u) {
      std::uint32_t const next = at + n * sector * u;
      word[u] = next < end ? *reinterpret_cast<std::uint32_t const volatile*>(frame + next) : 0;
    }
    GPUFS_UNROLL
    for (unsigned u = 0; u < together; ++u) mark |= word[u];
  }
  await_loads(mark);
}

/// The same for the first `bytes` of several frames, by all lanes of a warp: their loads are under
/// way together.
template <unsigned Frames>
__device__ __forceinline__ void settle_frames(std::byte const* const (&frames)[Frames],
                                              std::uint32_t bytes) {
  constexpr std::uint32_t sector = 32;
  constexpr unsigned together = 16 / Frames;
  __syncwarp();
  std::uint32_t mark = 0;
  for (std::uint32_t at = lane_id() * sector; at < bytes; at += warp_size * sector * together) {
    std::uint32_t word[Frames * together];
    GPUFS_UNROLL
    for (unsigned i = 0; i < Frames * together; ++i) {
      std::uint32_t const next = at + warp_size * sector * (i % together);
      std::byte const* const from = frames[i / together] + next;
      word[i] = next < bytes ? *reinterpret_cast<std::uint32_t const volatile*>(from) : 0;
    }
    GPUFS_UNROLL
    for (unsigned i = 0; i < Frames * together; ++i) mark |= word[i];
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
inline void settle_frame(std::byte const*, std::uint32_t, std::uint32_t, unsigned, unsigned,
                         unsigned) {}
template <unsigned Frames>
void settle_frames(std::byte const* const (&)[Frames], std::uint32_t) {}
#endif

}  // namespace gpufs::base
