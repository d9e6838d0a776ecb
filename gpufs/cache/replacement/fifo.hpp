// First in, first out: the sweep takes frames in the order of their numbers, as GPUfs does.
#pragma once

#include <gpufs/cache/replacement/policy.hpp>

namespace gpufs::cache {

template <>
struct policy_at<static_cast<unsigned>(replacement::fifo)> : policy_defaults {
  static constexpr char const* name = "fifo";
};

}  // namespace gpufs::cache
