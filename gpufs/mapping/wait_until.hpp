// Waits of an address space for its calls. The body of address_space::wait_until().
#pragma once

#include <gpufs/mapping/address_space.hpp>
#include <gpufs/mapping/futex.hpp>

namespace gpufs::shared {

/// Waits until `holds` does, which needs the mutex. Without the mutex, and with signals.
template <class Condition>
void address_space::wait_until(quiet_lock& lock, Condition const& holds) {
  for (unsigned times = 0;;) {
    take_ended_calls();
    if (holds()) return;
    // Pairs with end_call() and fail(): what changes behind this load ends the wait.
    auto const seen = changes_.load(std::memory_order_acquire);
    ++waiters_;
    lock.without([&] {
      if (!device_memory::call_ends::must_ask) return futex_wait(changes_, seen);
      if (!yields(times)) futex_wait_shortly(changes_, seen);
    });
    --waiters_;
  }
}

}  // namespace gpufs::shared
