// The changes to files that this process makes itself.
#pragma once

#include <test/crash/crash_disk.hpp>

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <vector>

namespace gpufs::test {

/// While it is on, all calls that change files are noted. One at a time. Any thread may call.
class memory_log {
 public:
  memory_log() = default;
  ~memory_log() { stop(); }
  memory_log(memory_log const&) = delete;
  memory_log& operator=(memory_log const&) = delete;

  /// `clock` gives a larger number at each call, to all threads.
  void start(std::function<std::uint64_t()> clock);
  void stop() noexcept;

  /// What was noted, after stop(). Of calls that are still under way the end is not noted.
  [[nodiscard]] std::vector<logged_change> take() {
    std::lock_guard const lock{mutex_};
    return std::move(changes_);
  }

  std::uint64_t begins(file_change&& what);
  void ends(std::uint64_t number, std::int64_t result);

 private:
  std::function<std::uint64_t()> clock_;
  std::mutex mutex_;
  std::vector<logged_change> changes_;
};

}  // namespace gpufs::test
