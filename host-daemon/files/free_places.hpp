// The free places of a table, first in, first out.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

namespace gpufs::daemon {

/// Places 0 to count - 1, all free at first. All functions are thread-safe and take no lock. Only
/// the constructor throws.
///
/// A ring of as many slots as there are places. take() and give() have tickets, and ticket t
/// belongs to slot t % count. A slot is empty or holds one place. take() draws a ticket only if a
/// give() has drawn the same one. So a thread waits only for another one that is between its ticket
/// and its slot, a few instructions:
/// - take() finds its slot empty. More gives than takes of this slot have begun that are not over.
/// - give() finds its slot full. At most `count` places are free, so a take() of the lap before has
///   begun and is not over.
class free_places {
 public:
  explicit free_places(std::uint32_t count);

  /// Returns the place that has been free for longest. Nothing: none is free.
  // What the last user of the place did before give() has happened before.
  [[nodiscard]] std::optional<std::uint32_t> take() noexcept;

  /// Gives back a place that take() returned.
  void give(std::uint32_t place) noexcept;

  /// Returns how many places were free at one moment of the call. Places that are being taken or
  /// given count as taken.
  [[nodiscard]] std::uint64_t size() const noexcept;

 private:
  static constexpr std::uint32_t none = ~0u;

  std::vector<std::atomic<std::uint32_t>> slots_;
  // Tickets drawn. The first `count` gives were the constructor's.
  alignas(64) std::atomic<std::uint64_t> taken_{0};
  alignas(64) std::atomic<std::uint64_t> given_;
};

/// A place for an object that may not come to be. It goes back unless it is kept.
class reserved_place {
 public:
  explicit reserved_place(free_places& of) noexcept : of_{of} {}
  ~reserved_place() {
    if (place_) of_.give(*place_);
  }
  reserved_place(reserved_place const&) = delete;
  reserved_place& operator=(reserved_place const&) = delete;

  /// Takes a place, unless it has one. Returns whether it has one then.
  bool reserve() noexcept {
    if (!place_) place_ = of_.take();
    return is_reserved();
  }
  [[nodiscard]] bool is_reserved() const noexcept { return place_.has_value(); }
  /// Needs is_reserved().
  [[nodiscard]] std::uint32_t number() const noexcept { return *place_; }
  /// The place is in use from now on.
  void keep() noexcept { place_.reset(); }

 private:
  free_places& of_;
  std::optional<std::uint32_t> place_;
};

}  // namespace gpufs::daemon
