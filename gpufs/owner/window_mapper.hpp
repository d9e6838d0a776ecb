// Creates the mapper of the daemon's window thread for this device.
#pragma once

#include <gpufs/rpc/window_format.hpp>

#include <host-daemon/device_work/window_mapper.hpp>

#include <cstdint>
#include <memory>

namespace gpufs::owner {

/// Returns a mapper for `table`: `entries` zeroed entries in device memory, a power of two, and
/// behind them rpc::window_entries_more. `users` is a word there that is nonzero while kernels use
/// the filesystem. The current device must be theirs.
[[nodiscard]] std::unique_ptr<daemon::window_mapper> make_window_mapper(rpc::window_entry* table,
                                                                        std::uint64_t entries,
                                                                        std::uint32_t const* users);

}  // namespace gpufs::owner
