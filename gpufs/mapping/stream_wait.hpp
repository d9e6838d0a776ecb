// Waits for a stream, so that handlers of the thread's signals may touch objects.
#pragma once

#include <gpufs/device.hpp>
#include <gpufs/device/call_ends.hpp>
#include <gpufs/mapping/fault_queue.hpp>
#include <gpufs/mapping/quiet_lock.hpp>

#include <time.h>

namespace gpufs::shared {

/// As on.synchronize(). No signal comes within a call of the device's library: its locks may be
/// needed for what the signal's handler touches.
inline void wait_for(stream& on) {
  if (!device_memory::call_ends::must_ask) return on.synchronize();
  constexpr timespec shortly{.tv_sec = 0, .tv_nsec = 50'000};
  for (unsigned times = 0;;) {
    {
      no_signals const quiet;
      if (on.done()) return;
    }
    if (!yields(times)) ::nanosleep(&shortly, nullptr);
  }
}

/// Waits until the stream has ended its work, or says that it failed. Reports nothing.
inline void wait_for_end(stream& on) noexcept {
  constexpr timespec shortly{.tv_sec = 0, .tv_nsec = 50'000};
  try {
    while (!on.done()) ::nanosleep(&shortly, nullptr);
  } catch (device_error const&) {  // it runs nothing any more
  }
}

}  // namespace gpufs::shared
