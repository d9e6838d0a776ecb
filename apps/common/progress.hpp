// A progress bar on stderr, where that is a terminal.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>

namespace gpufs::apps {

/// Shows the progress of long work and erases itself at the end. Shows nothing unless stderr is a
/// terminal.
class progress {
 public:
  /// `total`: the sum of all advance() calls. Without `wanted` it stays invisible, because another
  /// one shows.
  progress(std::string what, std::uint64_t total, bool wanted = true);
  ~progress();
  progress(progress const&) = delete;
  progress& operator=(progress const&) = delete;

  /// Adds `amount` to the progress. Thread-safe; draws at most ten times a second.
  void advance(std::uint64_t amount);
  /// `amount` is done in all.
  void set(std::uint64_t amount);
  /// Changes the total. Not while other threads advance it.
  void expect(std::uint64_t total);
  /// Changes what is said to be going on.
  void say(std::string what);
  /// Whether anybody sees it.
  [[nodiscard]] bool visible() const { return visible_; }

 private:
  void draw(bool now);

  bool const visible_;
  std::uint64_t total_;
  std::atomic<std::uint64_t> done_{0};
  std::mutex mutex_;  // guards the two below and the terminal
  std::string what_;
  std::chrono::steady_clock::time_point next_{};
};

}  // namespace gpufs::apps
