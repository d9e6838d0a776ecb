// Sizes that host and device share of what device code keeps of dirty pages.
#pragma once

#include <cstdint>

namespace gpufs::dirty {

inline constexpr unsigned buffer_state_bytes = 512;

/// Hashed write counters, whatever the number and size of files.
inline constexpr std::uint32_t write_counter_count = 8192;

}  // namespace gpufs::dirty
