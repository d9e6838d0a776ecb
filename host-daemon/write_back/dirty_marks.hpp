// The dirty marks of write buffers: which of them may be dirty.
#pragma once

#include <host-daemon/write_back/write_buffers.hpp>

#include <algorithm>
#include <atomic>
#include <bitset>
#include <cstdint>

namespace gpufs::daemon {

/// The marks of some versions. Several versions can have one mark.
using mark_set = std::bitset<256>;

/// Thread-safe.
class dirty_marks {
 public:
  /// `buffers` must outlive it.
  explicit dirty_marks(write_buffers const& buffers) : buffers_{buffers} {}

  /// Calls visit(number) for the buffers of [begin, end) that have a mark in `which`, until it
  /// returns false. Buffers that were posted before the call and are dirty have their marks. Costs
  /// one load for eight buffers without a mark.
  template <class Visit>
  void each(std::uint32_t begin, std::uint32_t end, mark_set const& which, Visit visit) const {
    std::uint32_t first = 0;  // the number of the endpoint's first buffer
    bool more = true;
    for (std::size_t endpoint = 0; endpoint < buffers_.endpoints() && more; ++endpoint) {
      auto const last = first + buffers_.count(endpoint);
      auto const from = std::max(begin, first);
      auto const to = std::min(end, last);
      if (from < to)
        more = each_of(buffers_.marks(endpoint), from - first, to - first, which,
                       [&](std::uint32_t i) { return visit(first + i); });
      first = last;
    }
  }

  /// Says that a buffer is clean. The caller has locked the buffer, which is dirty, and stores
  /// `written` next, with release.
  void clear(std::uint32_t i) const { buffers_.mark(i).store(0, std::memory_order_relaxed); }

  /// Returns how many buffers were visited so far.
  [[nodiscard]] std::uint64_t looks() const noexcept {
    return looks_.load(std::memory_order_relaxed);
  }

 private:
  static constexpr std::uint32_t group = 64;  // buffers whose marks share a cache line

  template <class Visit>
  bool each_of(std::uint64_t* marks, std::uint32_t begin, std::uint32_t end, mark_set const& which,
               Visit visit) const {
    std::uint64_t looks = 0;
    bool more = true;
    for (auto i = begin; i < end && more;) {
      if (i % group == 0 && none(marks + i / 8)) {
        i += group;
        continue;
      }
      auto const mark = std::atomic_ref{reinterpret_cast<std::uint8_t*>(marks)[i]}.load(
          std::memory_order_relaxed);
      if (mark != 0 && which[mark]) {
        ++looks;
        more = visit(i);
      }
      ++i;
    }
    if (looks != 0) looks_.fetch_add(looks, std::memory_order_relaxed);
    return more;
  }
  // Returns true if no buffer of the group whose marks begin here has one.
  static bool none(std::uint64_t* marks) {
    std::uint64_t all = 0;
    for (std::uint32_t w = 0; w < group / 8; ++w)
      all |= std::atomic_ref{marks[w]}.load(std::memory_order_relaxed);
    return all == 0;
  }

  write_buffers const& buffers_;
  mutable std::atomic<std::uint64_t> looks_{0};
};

}  // namespace gpufs::daemon
