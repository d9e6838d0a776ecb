// The marks of write buffers: which of them may be dirty.
#pragma once

#include <gpufs/rpc/write_format.hpp>

#include <atomic>
#include <bitset>
#include <cstdint>

namespace gpufs::daemon {

/// The marks of some versions. Several versions can have one mark.
using mark_set = std::bitset<256>;

/// Thread-safe.
class dirty_marks {
 public:
  explicit dirty_marks(rpc::write_region const& region) : region_{region} {}

  /// Calls visit(number) for the buffers of [begin, end) that have a mark in `which`, until it
  /// returns false. Buffers that were posted before the call and are dirty have their marks. Costs
  /// one load for eight buffers without a mark.
  template <class Visit>
  void each(std::uint64_t begin, std::uint64_t end, mark_set const& which, Visit visit) const {
    for (auto i = begin; i < end;) {
      if (i % group == 0 && none(i)) {
        i += group;
        continue;
      }
      auto const m = mark(i).load(std::memory_order_relaxed);
      if (m != 0 && which[m]) {
        looks_.fetch_add(1, std::memory_order_relaxed);
        if (!visit(std::uint32_t(i))) return;
      }
      ++i;
    }
  }

  /// Says that a buffer is clean. The caller has locked the buffer, which is dirty, and stores
  /// `written` next, with release.
  void clear(std::uint64_t i) const { mark(i).store(0, std::memory_order_relaxed); }

  /// Returns how many buffers were visited so far.
  [[nodiscard]] std::uint64_t looks() const noexcept {
    return looks_.load(std::memory_order_relaxed);
  }

 private:
  static constexpr std::uint64_t group = 64;  // buffers whose marks share a cache line

  [[nodiscard]] std::atomic_ref<std::uint8_t> mark(std::uint64_t i) const {
    return std::atomic_ref{reinterpret_cast<std::uint8_t*>(region_.marks)[i]};
  }
  // Returns true if no buffer of the group from i on has a mark.
  [[nodiscard]] bool none(std::uint64_t i) const {
    std::uint64_t all = 0;
    for (std::uint64_t w = i / 8; w < (i + group) / 8; ++w)
      all |= std::atomic_ref{region_.marks[w]}.load(std::memory_order_relaxed);
    return all == 0;
  }

  rpc::write_region region_;
  mutable std::atomic<std::uint64_t> looks_{0};
};

}  // namespace gpufs::daemon
