#pragma once

#include <cstdint>

namespace gpufs::apps {

/// Launches a kernel that does nothing. Waits for nothing.
void launch_idle();

/// Adds 1 to the first byte of each `step` bytes, and waits. `data`: an object's.
void change_each(std::byte* data, std::uint64_t bytes, std::uint64_t step);

}  // namespace gpufs::apps
