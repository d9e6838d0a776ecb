// Waits of an address space for its calls. The body of address_space::wait_until().
#pragma once

#include <gpufs/mapping/address_space.hpp>

namespace gpufs::shared {

/// Waits until `holds` does, which needs the mutex. Without the mutex, and with signals.
template <class Condition>
void address_space::wait_until(quiet_lock& lock, Condition const& holds) {
  for (;;) {
    take_ended_calls();
    if (holds()) return;
    // Pairs with take_ended_calls() and fail(): what changes behind this load ends the wait.
    auto const seen = changes_.load(std::memory_order_acquire);
    lock.without([&] { futex_wait(changes_, seen); });
  }
}

}  // namespace gpufs::shared
