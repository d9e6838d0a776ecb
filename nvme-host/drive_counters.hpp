// What a drive counts.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <new>

namespace gpufs::nvme_host {

/// Any thread reads and adds.
struct drive_counters {
  std::atomic<std::uint64_t> commands{0};       ///< sent, those that were sent again included
  std::atomic<std::uint64_t> flushes{0};        ///< of these
  std::atomic<std::uint64_t> bytes_read{0};     ///< by commands that succeeded
  std::atomic<std::uint64_t> bytes_written{0};  ///< by commands that succeeded
  std::atomic<std::uint64_t> retries{0};        ///< commands that were sent again
  std::atomic<std::uint64_t> own_faults{0};     ///< statuses that say the driver made a mistake
  std::atomic<std::uint64_t> timeouts{0};       ///< commands without an answer in time
  std::atomic<std::uint64_t> resets{0};
  std::atomic<std::uint64_t> longest_wait_ns{0};

  void waited(std::uint64_t ns) {
    auto seen = longest_wait_ns.load(std::memory_order_relaxed);
    while (seen < ns && !longest_wait_ns.compare_exchange_weak(seen, ns, std::memory_order_relaxed))
      ;
  }
  /// Without memory for a status that is new, it is not counted.
  void failed(std::uint16_t status) noexcept {
    std::lock_guard const lock{mutex_};
    try {
      ++errors_[status];
    } catch (std::bad_alloc const&) {
    }
  }
  /// Commands that failed, by status code.
  [[nodiscard]] std::map<std::uint16_t, std::uint64_t> errors() const {
    std::lock_guard const lock{mutex_};
    return errors_;
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::uint16_t, std::uint64_t> errors_;
};

}  // namespace gpufs::nvme_host
