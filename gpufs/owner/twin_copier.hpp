// Creates the copier of the daemon's transfer thread for this device.
#pragma once

#include <host-daemon/device_work/twin_copier.hpp>

#include <cstddef>
#include <memory>

namespace gpufs::owner {

/// Returns a copier from `staging` (pinned) to the same offsets of `twin` (device memory). It has
/// streams of its own. The current device must be the twin's. Throws device_error if the device
/// gives no streams.
[[nodiscard]] std::unique_ptr<daemon::twin_copier> make_twin_copier(std::byte const* staging,
                                                                    std::byte* twin);

}  // namespace gpufs::owner
