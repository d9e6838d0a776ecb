// SIGTERM and SIGINT write dirty pages to their files before they end the program.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <thread>

namespace gpufs::apps {

/// Made by main's thread before any other thread exists, so that all of them inherit that the two
/// signals are blocked; a thread of its own receives them.
class drain_on_signal {
 public:
  drain_on_signal();
  ~drain_on_signal();
  drain_on_signal(drain_on_signal const&) = delete;
  drain_on_signal& operator=(drain_on_signal const&) = delete;

  /// What to do when a signal comes, e.g. `[&] { fs.sync(); }`; empty: nothing any more. Returns
  /// once the old one no longer runs.
  void set(std::function<void()> drain);

 private:
  void watch();

  std::mutex mutex_;
  std::function<void()> drain_;
  std::atomic<bool> ending_{false};
  std::thread thread_;
};

}  // namespace gpufs::apps
