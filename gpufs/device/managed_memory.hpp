// Memory that CPU and device use at one address, and that the device's driver moves between them.
// One implementation per device.
#pragma once

#include <gpufs/device/shared_range.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>

namespace gpufs::device_memory {

/// Emulated: ordinary memory.
class managed_memory {
 public:
  /// `bytes` zeros, at a multiple of shared_range::granularity. Throws device_error.
  explicit managed_memory(std::uint64_t bytes);
  /// GPU: may wait for kernels.
  ~managed_memory();
  managed_memory(managed_memory&& other) noexcept
      : all_(std::exchange(other.all_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  managed_memory& operator=(managed_memory&&) = delete;

  [[nodiscard]] std::byte* data() const {
    auto const at = reinterpret_cast<std::uintptr_t>(all_);
    return all_ + (rounded_up(at, shared_range::granularity) - at);
  }

 private:
  std::byte* all_ = nullptr;
  std::uint64_t bytes_ = 0;  ///< with those before data() and behind it
};

}  // namespace gpufs::device_memory
