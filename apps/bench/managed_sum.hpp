// A kernel that reads memory once.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gpufs::apps {

/// The sum of the 8-byte words at `data`, which kernels can read, by one kernel. `bytes` is a
/// multiple of 8. Throws device_error.
[[nodiscard]] std::uint64_t sum_on_device(std::byte const* data, std::uint64_t bytes);

}  // namespace gpufs::apps
