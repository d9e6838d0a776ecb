// How many blocks the CPU may have written before the oldest of them is sent (ADSM, section 4.3).
#pragma once

#include <gpufs/mapping_options.hpp>

#include <algorithm>
#include <cstdint>

namespace gpufs::shared {

/// The rolling size of an address space. With rolling_automatic it grows by writes to blocks that
/// were just sent, and shrinks when a launch finds fewer written blocks than may be.
class rolling_size {
 public:
  explicit rolling_size(mapping_config const& c)
      : is_automatic_(c.rolling_size == rolling_automatic),
        per_object_(c.rolling_per_object),
        patience_(c.rolling_patience),
        limit_(is_automatic_ ? 0 : c.rolling_size) {}

  [[nodiscard]] std::uint64_t limit() const { return std::max<std::uint64_t>(limit_, 1); }

  void object_added() {
    ++objects_;
    if (is_automatic_) limit_ += per_object_;
  }
  void object_removed() {
    --objects_;
    if (!is_automatic_) return;
    limit_ -= std::min<std::uint64_t>(limit_, per_object_);
    if (objects_ != 0) limit_ = std::max<std::uint64_t>(limit_, per_object_);
  }

  /// The number of an eviction, from 1 on. Numbers come again after 2^32 - 1.
  std::uint32_t evicted() {
    if (++evictions_ == 0) ++evictions_;
    return evictions_;
  }

  /// A write to a block that eviction `at` sent. Returns whether that was just before.
  bool written_again(std::uint32_t at) {
    if (at == 0 || evictions_ - at >= limit()) return false;
    if (is_automatic_ && ++again_ >= patience_) {
      again_ = 0;
      ++limit_;
    }
    return true;
  }

  /// A launch finds so many written blocks.
  void released(std::uint64_t written) {
    if (is_automatic_ && written < limit_)
      limit_ = std::max<std::uint64_t>(per_object_, limit_ / 2);
  }

 private:
  bool is_automatic_;
  std::uint32_t per_object_;
  std::uint32_t patience_;
  std::uint64_t limit_;
  std::uint64_t objects_ = 0;
  std::uint32_t evictions_ = 0;
  std::uint32_t again_ = 0;
};

}  // namespace gpufs::shared
