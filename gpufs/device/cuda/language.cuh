// Device functions that CUDA lacks or names differently. language.hpp has those of the emulated
// device.
#pragma once

#include <cstdint>

#include <cooperative_groups.h>
#include <cuda_runtime_api.h>

/// Has an effect only on the emulated device; see its threads.hpp.
#define GPUFS_NO_TSAN

namespace gpufs {

/// Returns the block's dynamic shared memory (launch_options::dynamic_shared_bytes), aligned to 128
/// bytes. Its contents are unspecified.
template <class T>
[[nodiscard]] __device__ __forceinline__ T* dynamic_shared() {
  extern __shared__ __align__(128) unsigned char gpufs_dynamic_shared_bytes[];
  return reinterpret_cast<T*>(gpufs_dynamic_shared_bytes);
}

/// The calling thread's number in its warp, 0..31.
[[nodiscard]] __device__ __forceinline__ unsigned lane_id() {
  unsigned lane;
  asm("mov.u32 %0, %%laneid;" : "=r"(lane));
  return lane;
}

/// Nanoseconds of a clock that all blocks share. Its zero is unspecified.
[[nodiscard]] __device__ __forceinline__ std::uint64_t device_clock_ns() {
  std::uint64_t now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

/// A barrier of the block that threads may come to from different places of the code.
/// __syncthreads() is for warps whose threads come to the same place.
__device__ __forceinline__ void block_barrier_anywhere() {
  asm volatile("barrier.sync 0;" ::: "memory");
}

/// Pauses between two looks at a condition that another thread, block or the host will make true.
/// Any thread calls. `state` starts at 0 for each wait. The pause is 64 ns at first and then grows
/// by a quarter each time, up to `most_ns`. Until then a wait is overshot by about a quarter, and
/// the number of looks grows with the logarithm of its length.
__device__ __forceinline__ void backoff(unsigned& state, unsigned most_ns = 4096) {
  unsigned const time = state < 64 ? 64 : state;
  __nanosleep(time);
  unsigned const longer = time + time / 4;
  state = longer < most_ns ? longer : most_ns;
}

}  // namespace gpufs

#include <gpufs/device/converged_group.hpp>

namespace gpufs {

/// Returns the lanes of the caller's warp that are at this call together. The hardware decides
/// which, so code must be right for any split. This is no barrier: it does not wait for lanes that
/// go another way.
///
/// Ask the group for one thing, at once. Groups whose lanes wait for each other later on may get
/// mixed up on a GPU (docs/memory-model.md, "Groups of lanes").
[[nodiscard]] __device__ __forceinline__ converged_group converged() {
  return converged_group(__activemask());
}

}  // namespace gpufs
