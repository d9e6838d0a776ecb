// How the baseline's kernels wait: bounded by the timeout, backing off in between. Locks that are
// taken this way.
#pragma once

#include <gpufs/device.hpp>

#include <apps/baseline/original_state.hpp>

#include <cerrno>
#include <cstdint>

namespace gpufs::apps::original {

/// Waits until `pred()` holds. One thread calls. False when the timeout has passed; `pred` is asked
/// once more before that.
template <class Predicate>
__device__ inline bool wait_until(ref const& fs, Predicate&& pred) {
  if (pred()) return true;
  std::uint64_t const start = device_clock_ns();
  unsigned pause = 0;
  for (;;) {
    backoff(pause);
    if (pred()) return true;
    if (device_clock_ns() - start > fs.timeout_ns) return pred();
  }
}

/// Takes a lock (0 = free). One thread calls. False when the timeout has passed.
__device__ inline bool take_lock(ref const& fs, std::uint32_t& word) {
  return wait_until(fs, [&] {
    std::uint32_t expected = 0;
    // Acquire pairs with give_lock(): the last holder's writes are seen.
    return atomic_ref<std::uint32_t, scope::device>(word).compare_exchange_strong(
        expected, 1, memory_order_acquire, memory_order_relaxed);
  });
}
__device__ inline void give_lock(std::uint32_t& word) {
  atomic_ref<std::uint32_t, scope::device>(word).store(
      0, memory_order_release);  // pairs with take_lock()
}

__device__ inline void count(ref const& fs, counter which) {
  // Relaxed: read by the host after the kernel.
  atomic_ref<std::uint64_t, scope::device>(fs.counts[static_cast<unsigned>(which)])
      .fetch_add(1, memory_order_relaxed);
}

}  // namespace gpufs::apps::original
