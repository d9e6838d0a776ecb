// CLOCK: the sweep passes over a frame that was hit since its last visit, as BaM does.
#pragma once

#include <gpufs/cache/replacement/policy.hpp>

namespace gpufs::cache {

template <>
struct policy_at<static_cast<unsigned>(replacement::clock)> : policy_defaults {
  static constexpr char const* name = "clock";
  static constexpr bool marks_hits = true;
#if defined(__CUDACC__) || defined(GPUFS_EMULATED)
  __device__ static bool yields(frame_header& h) {
    return atomic_ref<std::uint32_t, scope::device>(h.referenced)
               .exchange(0, memory_order_relaxed) == 0;
  }
#endif
};

}  // namespace gpufs::cache
