// Memory that the driver of a GPU moves between CPU and GPU.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gpufs::apps {

/// Zeros until they are written. CPU and kernels reach it at the same address.
class managed_memory {
 public:
  /// Throws device_error if there is no room, usage_error on the emulated device.
  explicit managed_memory(std::uint64_t bytes);
  ~managed_memory();
  managed_memory(managed_memory const&) = delete;
  managed_memory& operator=(managed_memory const&) = delete;

  [[nodiscard]] std::byte* data() const { return static_cast<std::byte*>(memory_); }

 private:
  void* memory_ = nullptr;
};

/// Takes all of the GPU's free memory but `left` bytes, so that managed memory must do with these.
class device_ballast {
 public:
  /// 0: takes nothing. Throws device_error if `left` bytes are not free, usage_error on the
  /// emulated device.
  explicit device_ballast(std::uint64_t left);
  ~device_ballast();
  device_ballast(device_ballast const&) = delete;
  device_ballast& operator=(device_ballast const&) = delete;

 private:
  void* memory_ = nullptr;
};

}  // namespace gpufs::apps
