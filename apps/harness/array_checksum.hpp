// The checksum of an array in device memory, computed there.
#pragma once

#include <gpufs/device.hpp>

#include <cstddef>
#include <cstdint>

namespace gpufs::apps {

/// checksum() of the first `bytes` bytes of `array`. Waits for this_thread_stream(). Throws
/// device_error.
[[nodiscard]] std::uint64_t device_checksum(buffer<std::byte> const& array, std::uint64_t bytes);

}  // namespace gpufs::apps
