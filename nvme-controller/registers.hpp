// The registers of a controller in memory, seen by the controller.
#pragma once

#include <atomic>
#include <cstdint>

namespace gpufs::nvme_controller {

/// Both sides access 32 bits at a time.
class register_view {
 public:
  /// `base`: the first of all registers. The driver stores there, too.
  explicit register_view(std::uint32_t* base) : base_{base} {}

  /// Pairs with the driver's release: what it stored before is visible.
  [[nodiscard]] std::uint32_t load(std::uint32_t offset) const {
    return std::atomic_ref<std::uint32_t>{base_[offset / 4]}.load(std::memory_order_acquire);
  }
  [[nodiscard]] std::uint64_t load_two(std::uint32_t offset) const {
    return std::uint64_t{load(offset + 4)} << 32 | load(offset);
  }
  /// Pairs with the driver's acquire.
  void store(std::uint32_t offset, std::uint32_t value) const {
    std::atomic_ref<std::uint32_t>{base_[offset / 4]}.store(value, std::memory_order_release);
  }

 private:
  std::uint32_t* base_;
};

}  // namespace gpufs::nvme_controller
