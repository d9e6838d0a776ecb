// The way to a controller: its registers, and memory that it can reach.
#pragma once

#include <nvme-host/dma_space.hpp>

#include <atomic>
#include <cstdint>

namespace gpufs::nvme_host {

/// The registers of a controller, in memory or in a mapped BAR. Accesses have 32 bits.
class register_file {
 public:
  register_file() = default;
  /// `bytes`: of registers and doorbells.
  register_file(std::uint32_t* base, std::uint64_t bytes) : base_{base}, bytes_{bytes} {}

  /// Pairs with the release of a software controller.
  [[nodiscard]] std::uint32_t load(std::uint32_t offset) const {
    return std::atomic_ref<std::uint32_t>{base_[offset / 4]}.load(std::memory_order_acquire);
  }
  [[nodiscard]] std::uint64_t load_two(std::uint32_t offset) const {
    return std::uint64_t{load(offset + 4)} << 32 | load(offset);
  }
  /// Later than all stores of the caller before it.
  void store(std::uint32_t offset, std::uint32_t value) const {
    std::atomic_ref<std::uint32_t>{base_[offset / 4]}.store(value, std::memory_order_release);
  }
  void store_two(std::uint32_t offset, std::uint64_t value) const {
    store(offset, static_cast<std::uint32_t>(value));
    store(offset + 4, static_cast<std::uint32_t>(value >> 32));
  }

  /// The word at an offset, for device code that rings a doorbell.
  [[nodiscard]] std::uint32_t* at(std::uint32_t offset) const { return base_ + offset / 4; }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

 private:
  std::uint32_t* base_ = nullptr;
  std::uint64_t bytes_ = 0;
};

/// A controller as its driver sees it. One driver uses it.
class controller_link {
 public:
  virtual ~controller_link() = default;
  [[nodiscard]] virtual register_file registers() const = 0;
  [[nodiscard]] virtual dma_space& memory() = 0;
  /// Whether the controller is about to stop, or to fail, but waits for system calls of its own.
  /// CSTS follows once they have returned. Until then unmap() waits for them, too.
  [[nodiscard]] virtual bool is_stopping() const { return false; }
};

}  // namespace gpufs::nvme_host
