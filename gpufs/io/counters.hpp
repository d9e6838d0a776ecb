// Device-side statistics: counted per thread, added up in stripes in GPU memory, summed by the
// host.
#pragma once

#include <gpufs/device.hpp>
#include <gpufs/fs_ref.hpp>

#include <cstdint>

namespace gpufs {

enum class counter : unsigned {
  hits,
  misses,
  waits,
  evictions,
  requests,
  read_requests,
  prefetch_hits,
  bytes_delivered,
  bytes_pulled,
  bytes_dma,
  timeouts,
  errors,
  bytes_written,
  maps,
  unmaps,
  bytes_mapped,
  count
};

inline constexpr unsigned counters_per_stripe = 16;  // one 128-byte line
inline constexpr unsigned counter_stripes =
    256;  // callers of one stripe add to the same words: keep them few
static_assert(static_cast<unsigned>(counter::count) <= counters_per_stripe);

#if defined(__CUDACC__) || defined(GPUFS_EMULATED)
/// Adds to a counter. Call from one thread of a warp.
__device__ __forceinline__ void count(fs_ref const& fs, counter which, std::uint64_t n = 1) {
  if (n == 0) return;
  unsigned const stripe = (blockIdx.x * 7 + threadIdx.x / 32) % counter_stripes;
  atomic_ref<std::uint64_t, scope::device>(
      fs.counters[stripe * counters_per_stripe + static_cast<unsigned>(which)])
      .fetch_add(n, memory_order_relaxed);
}
#endif

}  // namespace gpufs
