// Tells a thread that there is work.
#pragma once

#include <atomic>
#include <cstdint>

namespace gpufs::shared {

/// Any thread rings, one thread waits. Nothing here allocates or locks.
class bell {
 public:
  /// Wakes the thread that waits. If it does not sleep, without a system call.
  void ring() noexcept;

  /// A number that each ring changes. Look for work after taking it, then wait() with it.
  [[nodiscard]] std::uint32_t rings() const noexcept {
    return rings_.load(std::memory_order_acquire);
  }
  /// Sleeps until somebody has rung since rings() gave `seen`.
  void wait(std::uint32_t seen) noexcept;
  /// The same for at most 50 us.
  void wait_shortly(std::uint32_t seen) noexcept;

 private:
  template <class Wait>
  void sleep(std::uint32_t seen, Wait const& wait) noexcept;

  std::atomic<std::uint32_t> rings_{0};
  std::atomic<bool> sleeps_{false};  ///< or is about to
};

}  // namespace gpufs::shared
