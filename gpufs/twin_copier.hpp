// How the daemon's transfer thread copies on this device.
#pragma once

#include <host-daemon/twin_copier.hpp>

#include <cstddef>
#include <memory>

namespace gpufs {

/// Copies from `staging` (pinned) to the same offsets of `twin` (device memory), on streams of its
/// own. Throws device_error if the device has none. The device that is current now must be the
/// twin's.
[[nodiscard]] std::unique_ptr<daemon::twin_copier> make_twin_copier(std::byte const* staging,
                                                                    std::byte* twin);

}  // namespace gpufs
