// Small functions of values and of lane masks. Bit i of a mask is lane i, or page i of a batch.
#pragma once

#include <gpufs/base/host_device.hpp>
#include <gpufs/device.hpp>

namespace gpufs::base {

template <class T>
[[nodiscard]] GPUFS_HOST_DEVICE constexpr T least(T a, T b) {
  return b < a ? b : a;
}

template <class T>
[[nodiscard]] GPUFS_HOST_DEVICE constexpr T most(T a, T b) {
  return a < b ? b : a;
}

/// The lowest bit that is set. The mask has at least one.
[[nodiscard]] __device__ __forceinline__ unsigned lowest_lane(unsigned mask) {
  return static_cast<unsigned>(__ffs(static_cast<int>(mask)) - 1);
}

/// The number of bits that are set.
[[nodiscard]] __device__ __forceinline__ unsigned count_lanes(unsigned mask) {
  return static_cast<unsigned>(__popc(mask));
}

/// Calls f(bit) for each bit that is set, from the lowest on.
template <class F>
__device__ __forceinline__ void for_each_lane(unsigned mask, F&& f) {
  for (unsigned left = mask; left != 0; left &= left - 1) f(lowest_lane(left));
}

}  // namespace gpufs::base
