// What a controller counts.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace gpufs::nvme_controller {

/// A count that many threads add to, each in a cache line of its own. Any thread calls.
class spread_counter {
 public:
  void add(std::uint64_t by) noexcept {
    lines_[line_of_thread()].value.fetch_add(by, std::memory_order_relaxed);
  }
  [[nodiscard]] std::uint64_t load() const noexcept {
    std::uint64_t sum = 0;
    for (line const& each : lines_) sum += each.value.load(std::memory_order_relaxed);
    return sum;
  }
  operator std::uint64_t() const noexcept { return load(); }  // NOLINT: it is a number

 private:
  struct alignas(64) line {
    std::atomic<std::uint64_t> value{0};
  };
  static constexpr std::size_t lines = 32;

  static std::size_t line_of_thread() noexcept {
    static std::atomic<std::size_t> threads{0};
    thread_local std::size_t const mine = threads.fetch_add(1, std::memory_order_relaxed) % lines;
    return mine;
  }

  std::array<line, lines> lines_;
};

/// Any thread reads; threads of the controller add.
struct controller_counters {
  spread_counter commands;       ///< taken from I/O queues
  spread_counter completions;    ///< posted to I/O queues
  spread_counter bytes_read;     ///< to the memory of the driver
  spread_counter bytes_written;  ///< from the memory of the driver
  spread_counter kept_reads;     ///< past the OS page cache, with others of the thread under way
  spread_counter errors;         ///< commands with another status than success
  spread_counter bad_doorbells;  ///< values beyond the end of the queue
  spread_counter bad_addresses;  ///< commands whose memory is not mapped
  spread_counter resets;         ///< CC.EN went to 0
};

inline void count(spread_counter& counter, std::uint64_t by = 1) noexcept { counter.add(by); }

}  // namespace gpufs::nvme_controller
