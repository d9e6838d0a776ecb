// Catches accesses of CPU threads to shared addresses that they may not use yet: SIGSEGV.
#pragma once

#include <gpufs/mapping/fault_queue.hpp>

#include <cstdint>

namespace gpufs::shared {

/// While it lives, faults in [first, first + bytes) go to `queue`. The handler is installed with
/// the first guard and stays; each further guard looks whether it is still there. Other faults go
/// to the handler that was there before.
///
/// In the handler nothing allocates, locks or calls the device: it posts the fault and waits. It
/// needs no alternate stack, may be interrupted by other signals, and serves faults of their
/// handlers.
class guard {
 public:
  /// Throws device_error if the process has too many address spaces, or no handler can be set.
  guard(void const* first, std::uint64_t bytes, fault_queue& queue);
  ~guard();
  guard(guard const&) = delete;
  guard& operator=(guard const&) = delete;

 private:
  unsigned number_;
};

/// Writes to stderr past the lock of its stream. Any thread calls, also in signal handlers.
void say(char const* text) noexcept;

/// Whether any of [first, first + bytes) lies in a guarded range. Any thread calls, also in signal
/// handlers. One load, if there has never been a guard.
[[nodiscard]] bool is_guarded(void const* first, std::uint64_t bytes) noexcept;

}  // namespace gpufs::shared
