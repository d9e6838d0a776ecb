// The way from the daemon's threads to the window thread: which windows of files are being read.
#pragma once

#include <host-daemon/backend/stored_file.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

namespace gpufs::daemon {

/// A window of a version of a file that is being read.
struct window_offer {
  std::uint64_t version, window;
  std::shared_ptr<stored_file const> file;
};

/// Bounded, first in first out. Any thread adds; one thread takes.
/// add() waits at most for the push of another thread, never for the taker. It allocates nothing.
class offer_queue {
 public:
  using clock = std::chrono::steady_clock;

  static constexpr std::size_t capacity = 4096;

  offer_queue();
  ~offer_queue();
  offer_queue(offer_queue const&) = delete;
  offer_queue& operator=(offer_queue const&) = delete;

  /// A guess at whether add() would fail now. Costs one load.
  [[nodiscard]] bool seems_full() const noexcept {
    return waiting_.load(std::memory_order_relaxed) >= capacity;
  }

  /// Returns false if the queue is full. The offer is dropped then.
  // Pairs with take(): the taker sees what the adding thread did before.
  bool add(window_offer const& offer) noexcept;

  /// Waits until there is an offer, wake() was called, `until` has passed, or a signal came.
  /// Nothing: no offer.
  [[nodiscard]] std::optional<window_offer> take(std::optional<clock::time_point> until) noexcept;

  /// Ends the take() under way or the next one. Any thread calls.
  void wake() noexcept;

 private:
  struct parts;  // hides Boost.Lockfree from the files that include this one
  std::unique_ptr<parts> parts_;
  std::atomic<std::size_t> waiting_{0};  // offers in the queue or about to be; orders nothing
};

}  // namespace gpufs::daemon
