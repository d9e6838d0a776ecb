// How the daemon's window thread maps files on this device.
#pragma once

#include <gpufs/rpc/window_format.hpp>

#include <host-daemon/window_mapper.hpp>

#include <cstdint>
#include <memory>

namespace gpufs {

/// `table`: `entries` zeroed entries in device memory, a power of two. `users`: a word there that
/// is not 0 while kernels use the filesystem. The device that is current now must be theirs.
[[nodiscard]] std::unique_ptr<daemon::window_mapper> make_window_mapper(rpc::window_entry* table,
                                                                        std::uint64_t entries,
                                                                        std::uint32_t const* users);

}  // namespace gpufs
