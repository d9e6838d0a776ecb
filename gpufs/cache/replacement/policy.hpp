// How a replacement policy is described, and where its number leads to it.
#pragma once

#include <gpufs/cache/geometry.hpp>
#include <gpufs/config.hpp>

#if defined(__CUDACC__) || defined(GPUFS_EMULATED)
#include <gpufs/device.hpp>
#endif

namespace gpufs::cache {

/// The policy of a number, which is a value of gpufs::replacement. Each policy specialises this in
/// a file of its own; policies.hpp includes the file. A policy has
///   static constexpr char const* name    as the setting `replacement` has it
///   static constexpr bool marks_hits     whether look-ups set frame_header::referenced
///   static constexpr bool has_queues     whether seats own queues of the frames they took
///   static __device__ bool yields(frame_header&)   whether the sweep may take a frame; a lane
///   calls
/// policy_defaults has them all but the name.
template <unsigned Number>
struct policy_at {
  static constexpr bool exists = false;
};

struct policy_defaults {
  static constexpr bool exists = true;
  static constexpr bool marks_hits = false;
  static constexpr bool has_queues = false;
#if defined(__CUDACC__) || defined(GPUFS_EMULATED)
  __device__ static bool yields(frame_header&) { return true; }
#endif
};

/// Numbers of policies lie below it.
inline constexpr unsigned most_policies = 16;

}  // namespace gpufs::cache
