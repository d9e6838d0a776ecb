// How long the CPU goes on to see bytes of the device that it has read while a call runs.
#pragma once

#include <algorithm>
#include <chrono>
#include <optional>

namespace gpufs::shared {

/// One period for all glimpses: it begins with the first one, and they end together. One thread at
/// a time uses it.
class glimpse_clock {
 public:
  using clock = std::chrono::steady_clock;

  /// Bytes have come at `now`. That took `copy`.
  void came(clock::time_point now, clock::duration copy) {
    if (!first_) first_ = now;
    longest_ = std::max(longest_, copy);
  }
  /// Whether there are glimpses.
  [[nodiscard]] bool runs() const { return first_.has_value(); }
  /// Later glimpses do not put the end off, however many there are. But an instruction may need
  /// four blocks at once, with a fault for each. So a period lasts for several copies.
  [[nodiscard]] bool is_over(clock::time_point now) const {
    constexpr int copies = 8;
    constexpr std::chrono::milliseconds at_least{1};
    return first_ && now - *first_ >= at_least + copies * longest_;
  }
  void end() { *this = {}; }

 private:
  std::optional<clock::time_point> first_;
  clock::duration longest_{0};
};

}  // namespace gpufs::shared
