// The bounds of a launch, the same for both devices.
#pragma once

#include <gpufs/device.hpp>

#include <cstdint>

namespace gpufs::detail {

/// Throws device_error naming the option that no device takes, or this one does not, and the values
/// that it takes.
void check_launch(launch_options const& options, std::uint64_t most_dynamic_shared_bytes);

}  // namespace gpufs::detail
