// Memory that CPU and device use at one address, and that the device's driver moves between them.
// One implementation per device.
#pragma once

#include <gpufs/device/shared_range.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

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

  /// It is seen from now on what the device touches of bytes [first, end). Nobody else uses them
  /// until touched_units(). GPU: all of them get memory of the host. Throws device_error.
  void watch(std::uint64_t first, std::uint64_t end) const;
  /// The units of shared_range::granularity that have bytes which it has touched since. Throws
  /// device_error.
  [[nodiscard]] std::vector<std::uint64_t> touched_units(std::uint64_t first,
                                                         std::uint64_t end) const;

 private:
  std::byte* all_ = nullptr;
  std::uint64_t bytes_ = 0;  ///< with those before data() and behind it
};

}  // namespace gpufs::device_memory
