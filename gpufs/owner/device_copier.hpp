// Creates copiers between files and memory of this device, for the daemon's bulk I/O.
#pragma once

#include <host-daemon/device_work/device_copier.hpp>

#include <cstdint>
#include <memory>

namespace gpufs::owner {

/// Returns a copier with `parts` (at least 1) pinned parts of `part_bytes` each and a stream for
/// each. It copies to and from memory of the device that is current now, in any thread. Throws
/// device_error if there is no memory or stream.
[[nodiscard]] std::unique_ptr<daemon::device_copier> make_device_copier(unsigned parts,
                                                                        std::uint64_t part_bytes);

}  // namespace gpufs::owner
