// What a controller counts.
#pragma once

#include <atomic>
#include <cstdint>

namespace gpufs::nvme_controller {

/// Any thread reads; threads of the controller add.
struct controller_counters {
  std::atomic<std::uint64_t> commands{0};       ///< taken from I/O queues
  std::atomic<std::uint64_t> completions{0};    ///< posted to I/O queues
  std::atomic<std::uint64_t> bytes_read{0};     ///< to the memory of the driver
  std::atomic<std::uint64_t> bytes_written{0};  ///< from the memory of the driver
  std::atomic<std::uint64_t> errors{0};         ///< commands with another status than success
  std::atomic<std::uint64_t> bad_doorbells{0};  ///< values beyond the end of the queue
  std::atomic<std::uint64_t> bad_addresses{0};  ///< commands whose memory is not mapped
  std::atomic<std::uint64_t> resets{0};         ///< CC.EN went to 0
};

inline void count(std::atomic<std::uint64_t>& counter, std::uint64_t by = 1) {
  counter.fetch_add(by, std::memory_order_relaxed);
}

}  // namespace gpufs::nvme_controller
