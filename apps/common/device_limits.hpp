// The measured limits of the device: how fast it reads host memory and how fast it copies.
#pragma once

#include <cstdint>

namespace gpufs::apps {

struct device_limits {
  double pull_GBps = 0;  ///< a kernel of many blocks reads pinned host memory with 16-byte loads
  double pull_one_block_GBps = 0;  ///< the same with one block
  double dma_GBps = 0;             ///< one large copy from pinned host memory to the device
};

/// Each is the median of three. Throws device_error if there is no memory for it (256 MiB pinned,
/// as much on the device; emulated 16).
[[nodiscard]] device_limits measure_device_limits();

/// Payload of a plain copy kernel that moves `bytes` bytes of device memory, over and over for
/// about `seconds`: bytes copied per second (each is read and written once) / 1e9.
[[nodiscard]] double measure_copy_kernel_GBps(std::uint64_t bytes, double seconds);

}  // namespace gpufs::apps
