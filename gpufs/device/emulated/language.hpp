// The CUDA C++ of the project's kernels, for g++: keywords and built-in variables. The headers
// below have intrinsics, atomics and cooperative groups. The macros are CUDA's own names, which no
// other feature of C++ can supply.
#pragma once

#include <gpufs/device/emulated/threads.hpp>
#include <gpufs/device/emulated/vector_types.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>

#define __global__
#define __device__
#define __host__
// Not forced: that takes g++ a quarter longer for a kernel, which runs no faster.
#define __forceinline__ inline
#define __launch_bounds__(...)
// Threads of a block are fibers of one OS thread, and never leave it. As on the GPU, do not rely on
// an initial value.
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

/// Returns the block's dynamic shared memory (launch_options::dynamic_shared_bytes), aligned to 128
/// bytes. Its contents are unspecified.
template <class T>
[[nodiscard]] inline T* dynamic_shared() {
  return reinterpret_cast<T*>(emulated::this_block().dynamic_shared);
}

/// The calling thread's number in its warp, 0..31.
[[nodiscard]] inline unsigned lane_id() { return emulated::this_thread().lane; }

/// Nanoseconds of a clock that all blocks share. Its zero is unspecified.
[[nodiscard]] inline std::uint64_t device_clock_ns() {
  return std::uint64_t(std::chrono::duration_cast<std::chrono::nanoseconds>(
                           std::chrono::steady_clock::now().time_since_epoch())
                           .count());
}

/// A barrier of the block that threads may come to from different places of the code.
inline void block_barrier_anywhere(emulated::place const& where = emulated::place::current()) {
  __syncthreads(where);
}

/// Call between two looks at a condition that another thread, block or the host will make true.
/// `state` starts at 0 for each wait. Lets the block's other threads run. If all of them wait,
/// other OS threads get the core.
inline void backoff(unsigned& state, unsigned = 4096) {
  emulated::yield_waiting(state == 0);
  state = 1;
}

}  // namespace gpufs

#include <gpufs/device/converged_group.hpp>

namespace gpufs {

/// Returns the lanes of the caller's warp that are at this call together. The seed decides which,
/// so code must be right for any split. This is no barrier: it does not wait for lanes that go
/// another way.
///
/// Ask the group for one thing, at once. Groups whose lanes wait for each other later on may get
/// mixed up on a GPU (docs/memory-model.md, "Groups of lanes").
[[nodiscard]] inline converged_group converged(
    emulated::place const& where = emulated::place::current()) {
  return converged_group(emulated::converged_lanes(where));
}

}  // namespace gpufs
