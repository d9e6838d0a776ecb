// Device-side statistics: counted per thread, added up in stripes in GPU memory, summed by the
// host.
#pragma once

#include <gpufs/device.hpp>
#include <gpufs/device_counters.hpp>
#include <gpufs/fs_ref.hpp>

#if defined(__CUDACC__) || defined(GPUFS_EMULATED)
#include <gpufs/base/reduce.hpp>
#endif

#include <cstdint>

namespace gpufs::handle {

#define GPUFS_VALUE(name, help) name,
enum class counter : unsigned { GPUFS_DEVICE_COUNTERS(GPUFS_VALUE) count };
#undef GPUFS_VALUE

/// Whole lines of 128 bytes, so that stripes share none.
inline constexpr unsigned counters_per_stripe =
    (static_cast<unsigned>(counter::count) + 15) / 16 * 16;
inline constexpr unsigned counter_stripes =
    256;  // callers of one stripe add to the same words: keep them few

#if defined(__CUDACC__) || defined(GPUFS_EMULATED)
/// Adds to a counter. Call from one thread of a warp.
__device__ __forceinline__ void add(fs_ref const& fs, counter which, std::uint64_t n = 1) {
  if (n == 0) return;
  unsigned const stripe = (blockIdx.x * 7 + threadIdx.x / 32) % counter_stripes;
  base::reduce_add(fs.counters[stripe * counters_per_stripe + static_cast<unsigned>(which)], n,
                   memory_order_relaxed);
}
#endif

}  // namespace gpufs::handle
