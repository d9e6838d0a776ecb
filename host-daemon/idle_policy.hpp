// What a daemon thread does between two looks at the ring that find nothing: spin, back off, then
// look at most every 100 us.
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

  static constexpr std::chrono::microseconds spin_time{
      5000};  // waking from a rest can take a virtual machine a millisecond
  static constexpr std::chrono::microseconds longest_rest{100};
  static constexpr unsigned few_cores =
      4;  // up to here the callers need the core that a spinning thread would hold
  static constexpr unsigned yields =
      16;  // turns given to others before resting, where cores are few

  explicit idle_policy(unsigned cores = std::thread::hardware_concurrency()) noexcept
      : spins_{cores > few_cores} {}

  /// There was work: begin again.
  void reset() noexcept { turns_ = 0, rest_ = std::chrono::microseconds{1}; }

  /// How long to rest now; zero after having spun or yielded, in which case the caller just looks
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
