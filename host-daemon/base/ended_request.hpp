// A request to the host that has ended.
#pragma once

#include <gpufs/host_times.hpp>

#include <chrono>
#include <cstdint>

namespace gpufs::daemon {

struct ended_request {
  using time_point = std::chrono::steady_clock::time_point;

  host_request kind{};
  char const* path = "";  ///< the way of the bytes; see docs/tracing.md
  std::uint64_t offset = 0, length = 0;
  std::int64_t result = 0;  ///< bytes, 0, or -errno
  time_point begin{}, end{};
};

}  // namespace gpufs::daemon
