// Runs a function on a few host threads.
#pragma once

#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace gpufs::apps {

/// Threads with which the programs read and generate files: one per core, at most 16.
[[nodiscard]] inline unsigned io_threads() {
  unsigned const cores = std::thread::hardware_concurrency();
  return cores == 0 ? 1 : cores < 16 ? cores : 16;
}

/// Calls `work(i)` for each i below `count`, each on its own thread; returns when all have ended.
/// Throws the first exception of one.
template <class Work>
void run_on_threads(unsigned count, Work const& work) {
  std::mutex mutex;
  std::exception_ptr failure;
  {
    std::vector<std::jthread> threads;
    for (unsigned i = 0; i < count; ++i) {
      threads.emplace_back([&, i] {
        try {
          work(i);
        } catch (...) {
          std::lock_guard const lock(mutex);
          if (!failure) failure = std::current_exception();
        }
      });
    }
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace gpufs::apps
