// The rests of a daemon thread between two looks that find no work: it spins, then backs off to one
// look every 100 us.
#pragma once

#include <time.h>

#include <algorithm>
#include <chrono>
#include <thread>

namespace gpufs::daemon {

/// Belongs to one thread.
class idle_policy {
 public:
  using clock = std::chrono::steady_clock;

  // In a virtual machine, waking from a rest can take a millisecond.
  static constexpr std::chrono::microseconds spin_time{5000};
  static constexpr std::chrono::microseconds longest_rest{100};
  // With no more cores than this, callers need the core that a spinning thread would take.
  static constexpr unsigned few_cores = 4;
  // Where cores are few: turns given to other threads before the first rest.
  static constexpr unsigned yields = 16;

  explicit idle_policy(unsigned cores = std::thread::hardware_concurrency()) noexcept
      : spins_{cores > few_cores} {}

  /// The thread found work: begin again.
  void reset() noexcept { turns_ = 0, rest_ = std::chrono::microseconds{1}; }

  /// Returns the time to rest now. Zero: it has spun or yielded already, and the caller looks
  /// again.
  std::chrono::microseconds next() noexcept {
    if (spins_) {
      auto const now = clock::now();
      if (turns_++ == 0) since_ = now;
      if (now - since_ < spin_time) {
        pause();
        return std::chrono::microseconds::zero();
      }
    } else if (turns_ < yields) {
      ++turns_;
      std::this_thread::yield();
      return std::chrono::microseconds::zero();
    }
    rest_ = std::min(2 * rest_, longest_rest);
    return rest_;
  }

  static void sleep(std::chrono::microseconds time) noexcept {
    ::timespec const t{.tv_sec = 0, .tv_nsec = long(time.count()) * 1000};
    ::nanosleep(&t, nullptr);
  }

 private:
  static void pause() noexcept {
#if defined(__x86_64__)
    for (int i = 0; i < 4; ++i) __builtin_ia32_pause();
#elif defined(__aarch64__)
    for (int i = 0; i < 4; ++i) asm volatile("isb" ::: "memory");
#endif
  }

  bool spins_;
  unsigned turns_ = 0;
  std::chrono::microseconds rest_{1};
  clock::time_point since_{};
};

}  // namespace gpufs::daemon
