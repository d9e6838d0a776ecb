// Device functions that CUDA has under other names, or not at all: the counterpart of the emulated
// device's language.hpp.
#pragma once

#include <cstdint>

#include <cooperative_groups.h>
#include <cuda_runtime_api.h>

/// For the emulated device alone: see its threads.hpp.
#define GPUFS_NO_TSAN

namespace gpufs {

/// The block's dynamic shared memory (launch_options::dynamic_shared_bytes), aligned to 128 bytes.
/// Contents are unspecified.
template <class T>
[[nodiscard]] __device__ __forceinline__ T* dynamic_shared() {
  extern __shared__ __align__(128) unsigned char gpufs_dynamic_shared_bytes[];
  return reinterpret_cast<T*>(gpufs_dynamic_shared_bytes);
}

/// The calling thread's place in its warp, 0..31.
[[nodiscard]] __device__ __forceinline__ unsigned lane_id() {
  unsigned lane;
  asm("mov.u32 %0, %%laneid;" : "=r"(lane));
  return lane;
}

/// Nanoseconds of a clock that all blocks share; its zero is unspecified.
[[nodiscard]] __device__ __forceinline__ std::uint64_t device_clock_ns() {
  std::uint64_t now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

/// To be called between two looks at a condition that another thread, block or the host will make
/// true. `state` starts at 0 for each wait. Sleeps for 64 ns at first, then a quarter longer each
/// time, up to `most_ns`: the wait is overshot by a quarter, and the number of looks grows with its
/// logarithm.
__device__ __forceinline__ void backoff(unsigned& state, unsigned most_ns = 4096) {
  unsigned const time = state < 64 ? 64 : state;
  __nanosleep(time);
  unsigned const longer = time + time / 4;
  state = longer < most_ns ? longer : most_ns;
}

}  // namespace gpufs

#include <gpufs/device/converged_group.hpp>

namespace gpufs {

/// The lanes of the caller's warp that are at this call together. Which ones is up to the hardware:
/// code must be right for any split. Not a barrier: lanes that go another way are not waited for.
[[nodiscard]] __device__ __forceinline__ converged_group converged() {
  return converged_group(__activemask());
}

}  // namespace gpufs
