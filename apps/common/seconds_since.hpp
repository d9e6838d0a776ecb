// Time that has passed, by the host's clock.
#pragma once

#include <chrono>

namespace gpufs::apps {

[[nodiscard]] inline double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace gpufs::apps
