// Sums over the threads of a kernel.
#pragma once

#include <gpufs/base/warp.hpp>
#include <gpufs/device.hpp>

#include <cstdint>

namespace gpufs::apps::analytics {

/// Adds up the lanes' values, modulo 2^64, and adds that to a word in device memory. All lanes of a
/// warp call.
__device__ inline void add_over_warp(std::uint64_t value, std::uint64_t& to) {
  std::uint64_t const sum = base::warp_sum(value);
  // Relaxed: the host reads it after the kernel.
  if (lane_id() == 0 && sum != 0)
    atomic_ref<std::uint64_t, scope::device>(to).fetch_add(sum, memory_order_relaxed);
}

}  // namespace gpufs::apps::analytics
