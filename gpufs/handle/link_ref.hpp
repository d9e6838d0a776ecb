// What device code needs to talk to the daemon.
#pragma once

#include <gpufs/rpc/wire_format.hpp>

#include <cstddef>
#include <cstdint>

namespace gpufs::handle {

/// Words from one ring's tail to the next: a cache line.
inline constexpr std::uint64_t tail_stride = 16;

/// The memory shared with the daemon, and what only device code keeps of the rings.
struct link_ref {
  rpc::shared_region shared;  ///< pinned host memory, one address on both sides
  /// GPU memory as large as staging, to which the daemon copies; null = it does not
  std::byte* twin = nullptr;
  std::uint64_t* tails = nullptr;  ///< in GPU memory: each ring's next ticket, tail_stride apart
  std::uint64_t timeout_ns = 0;    ///< config::rpc_timeout_ms
};

}  // namespace gpufs::handle
