// The log of closes: which descriptors were taken back, for threads that keep borrowed files.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

namespace gpufs::daemon {

/// Holds the last `length` closes. All functions are thread-safe and take no lock.
///
/// A close draws its number first and is noted behind it. A reader that comes in between finds
/// `not_yet`. An entry has the lap of its number. So a reader knows an entry of another lap.
class close_log {
 public:
  static constexpr std::uint64_t length = 1024;

  /// Returns the number of closes that have begun to be noted.
  // Pairs with the release in note(), and later notes continue that release: a thread that sees the
  // count sees what all these closes did before note().
  [[nodiscard]] std::uint64_t count() const noexcept {
    return count_.load(std::memory_order_acquire);
  }

  static constexpr std::int32_t not_yet = 0;
  static constexpr std::int32_t lost = -1;

  /// Returns the descriptor of close `n`, which is less than count(), or `not_yet`, or `lost`: a
  /// later close has taken its place.
  [[nodiscard]] std::int32_t descriptor(std::uint64_t n) const noexcept {
    auto const word = entries_[n % length].load(std::memory_order_relaxed);
    auto const laps = later(lap_of(n), word);
    return laps < 0 ? not_yet : laps > 0 ? lost : std::int32_t(std::uint32_t(word));
  }

  void note(std::int32_t descriptor) noexcept {
    auto const n = count_.fetch_add(1, std::memory_order_release);
    auto& entry = entries_[n % length];
    auto seen = entry.load(std::memory_order_relaxed);
    // A note of a later lap stays. Then the readers of this one find that they have lost it.
    while (later(lap_of(n), seen) < 0 &&
           !entry.compare_exchange_weak(seen,
                                        std::uint64_t(lap_of(n)) << 32 | std::uint32_t(descriptor),
                                        std::memory_order_relaxed)) {
    }
  }

 private:
  static std::uint32_t lap_of(std::uint64_t n) noexcept { return std::uint32_t(n / length + 1); }
  // How many laps an entry is later than `lap`. Laps may wrap.
  static std::int32_t later(std::uint32_t lap, std::uint64_t word) noexcept {
    return std::int32_t(std::uint32_t(word >> 32) - lap);
  }

  alignas(64) std::atomic<std::uint64_t> count_{0};
  // Each: the lap of the close, and its descriptor. An entry says only what it holds itself, so its
  // loads and stores order nothing.
  alignas(64) std::array<std::atomic<std::uint64_t>, length> entries_{};
};

}  // namespace gpufs::daemon
