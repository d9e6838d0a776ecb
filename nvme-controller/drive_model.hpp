// The speed of a drive, for a controller that shall not be faster.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace gpufs::nvme_controller {

/// Commands a second by size, and the time from a command to its answer. All are above 0.
struct drive_rates {
  double read_512;   ///< reads of 512 bytes a second
  double read_4k;    ///< reads of 4 KiB
  double write_512;  ///< writes of 512 bytes
  double write_4k;   ///< writes of 4 KiB
  std::chrono::nanoseconds latency;
};

/// A bucket of tokens and a delay line. A command of 512 bytes or less, or of 4 KiB, takes 1 / rate
/// of the drive's time. Between them the time grows in a line, above 4 KiB with the bytes. The
/// drive works on one command after the other, and answers `latency` after it has. Threads of the
/// controller call, several at once.
class drive_model {
 public:
  /// Time that an idle drive saves up: commands may come in bursts.
  static constexpr std::chrono::nanoseconds burst{100'000};

  using clock = std::chrono::steady_clock;

  explicit drive_model(drive_rates const& rates) : rates_{rates} {}

  /// Time of the drive that a transfer takes.
  [[nodiscard]] std::chrono::nanoseconds cost(bool writes, std::uint64_t bytes) const;

  /// When a transfer that came at `now` is answered. Later calls get no earlier times, unless `now`
  /// is earlier.
  [[nodiscard]] clock::time_point due(bool writes, std::uint64_t bytes, clock::time_point now);

 private:
  drive_rates const rates_;
  // The time up to which the drive has work. Each command moves it by one compare-and-swap. It
  // orders no other data.
  std::atomic<clock::rep> busy_until_{0};
};

}  // namespace gpufs::nvme_controller
