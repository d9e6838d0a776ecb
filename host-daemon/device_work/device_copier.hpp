// The interface by which bulk operations reach device memory: pinned parts, and copies between
// them and the device. Device calls are made by its implementation alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace gpufs::daemon {

/// One thread uses it at a time. Any call may take long: a CUDA call may wait for the end of a
/// kernel. So no kernel may wait for the operation.
class device_copier {
 public:
  virtual ~device_copier() = default;

  enum class direction { to_device, to_host };
  enum class state { under_way, copied, failed };

  /// The number of parts, at least 1.
  [[nodiscard]] virtual unsigned parts() const noexcept = 0;

  /// The pinned memory of part `n`, 4096-aligned. All parts are equally long, at least one byte.
  [[nodiscard]] virtual std::span<std::byte> part(unsigned n) noexcept = 0;

  /// Starts a copy between the first `bytes` bytes of part `n` and device memory. No copy of the
  /// part is under way. Returns false if the device refuses; then it started nothing.
  [[nodiscard]] virtual bool start(direction which, unsigned n, std::uint64_t address,
                                   std::uint64_t bytes) noexcept = 0;

  /// Returns the state of the copy of part `n`. `copied` and `failed` end it.
  [[nodiscard]] virtual state look(unsigned n) noexcept = 0;
};

}  // namespace gpufs::daemon
