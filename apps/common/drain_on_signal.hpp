// SIGTERM, SIGINT and SIGHUP write dirty pages to their files before they end the program.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <thread>

namespace gpufs::apps {

/// Made by the thread of main() before any other thread exists. All threads inherit the blocked
/// signals, and a thread of its own receives them.
class drain_on_signal {
 public:
  drain_on_signal();
  ~drain_on_signal();
  drain_on_signal(drain_on_signal const&) = delete;
  drain_on_signal& operator=(drain_on_signal const&) = delete;

  /// Sets what a signal does, e.g. `[&] { fs.sync(); }`; empty: nothing. Returns once the old
  /// action no longer runs.
  void set(std::function<void()> drain);

 private:
  void watch();

  std::mutex mutex_;
  std::function<void()> drain_;
  std::atomic<bool> ending_{false};
  std::thread thread_;
};

}  // namespace gpufs::apps
