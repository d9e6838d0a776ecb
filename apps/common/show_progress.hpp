// Shows how far a kernel is while it runs.
#pragma once

#include <gpufs/gpufs.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <thread>

namespace gpufs::apps {

/// Calls show(sum of `finished`) now and then until the work of `on` is done; does nothing without
/// `show`. The blocks of a kernel store their numbers in `finished`, relaxed.
inline void show_progress(stream& on, pinned_buffer<std::uint64_t>& finished,
                          std::function<void(std::uint64_t)> const& show) {
  if (!show) return;
  while (!on.done()) {
    std::uint64_t sum = 0;
    // Relaxed: a number to show.
    for (auto& f : finished)
      sum += atomic_ref<std::uint64_t, scope::system>(f).load(memory_order_relaxed);
    show(sum);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

}  // namespace gpufs::apps
