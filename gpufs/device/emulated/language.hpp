// The CUDA C++ that the project's kernels use, for g++: keywords, built-in variables, and with the
// headers below intrinsics, atomics and cooperative groups. Macros are CUDA's own names; there is
// no other way to supply these.
#pragma once

#include <gpufs/device/emulated/threads.hpp>
#include <gpufs/device/emulated/vector_types.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
// Threads of a block are fibers of one OS thread, and never leave it. Like on the GPU there is no
// initial value to rely on.
#define __shared__ static thread_local

#define threadIdx (::gpufs::emulated::this_thread().index)
#define blockIdx (::gpufs::emulated::this_block().index)
#define blockDim (::gpufs::emulated::this_block().block_size)
#define gridDim (::gpufs::emulated::this_block().grid_size)

inline constexpr int warpSize = 32;

#include <gpufs/device/emulated/atomic_functions.hpp>
#include <gpufs/device/emulated/cooperative_groups.hpp>
#include <gpufs/device/emulated/intrinsics.hpp>
#include <gpufs/device/emulated/warp_functions.hpp>

namespace gpufs {

/// The block's dynamic shared memory (launch_options::dynamic_shared_bytes), aligned to 128 bytes.
/// Contents are unspecified.
template <class T>
[[nodiscard]] inline T* dynamic_shared() {
  return reinterpret_cast<T*>(emulated::this_block().dynamic_shared);
}

/// The calling thread's place in its warp, 0..31.
[[nodiscard]] inline unsigned lane_id() { return emulated::this_thread().lane; }

/// Nanoseconds of a clock that all blocks share; its zero is unspecified.
[[nodiscard]] inline std::uint64_t device_clock_ns() {
  return std::uint64_t(std::chrono::duration_cast<std::chrono::nanoseconds>(
                           std::chrono::steady_clock::now().time_since_epoch())
                           .count());
}

/// To be called between two looks at a condition that another thread, block or the host will make
/// true. `state` starts at 0 for each wait and counts the calls. Lets the block's other threads
/// run; when they all wait, gives the core to other OS threads.
inline void backoff(unsigned& state, unsigned = 4096) {
  emulated::yield_waiting(state == 0);
  state = 1;
}

}  // namespace gpufs

#include <gpufs/device/converged_group.hpp>

namespace gpufs {

/// The lanes of the caller's warp that are at this call together. Which ones is up to the hardware,
/// and here to the seed: code must be right for any split. Not a barrier: lanes that go another way
/// are not waited for.
[[nodiscard]] inline converged_group converged(
    emulated::place const& where = emulated::place::current()) {
  return converged_group(emulated::converged_lanes(where));
}

}  // namespace gpufs
