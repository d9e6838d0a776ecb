// Least recently allocated: a seat takes the frame that it took first (GPUfs readahead paper,
// section 5.1). seat_queues.hpp has the queues.
#pragma once

#include <gpufs/cache/replacement/policy.hpp>

namespace gpufs::cache {

template <>
struct policy_at<static_cast<unsigned>(replacement::lra)> : policy_defaults {
  static constexpr char const* name = "lra";
  static constexpr bool has_queues = true;
};

}  // namespace gpufs::cache
