// How long kernels run, without what comes before them.
#pragma once

#include <gpufs/device.hpp>

#include <apps/common/seconds_since.hpp>

#include <algorithm>
#include <chrono>

namespace gpufs::apps::workloads {

/// Times launches on this_thread_stream(), and waits behind each of them. One thread uses it.
class kernel_timer {
 public:
  /// Calls `launch`, and adds the device's time between its return and the kernel's end.
  template <class Launch>
  void time(Launch const& launch) {
    auto& on = this_thread_stream();
    begin_.record(on);
    auto const start = std::chrono::steady_clock::now();
    launch();
    double const before = seconds_since(start);  // handing objects over, moves, fills
    end_.record(on);
    end_.synchronize();
    seconds_ += std::max(0.0, event::seconds_between(begin_, end_) - before);
  }

  /// Of all launches so far.
  [[nodiscard]] double seconds() const { return seconds_; }

 private:
  event begin_, end_;
  double seconds_ = 0;
};

}  // namespace gpufs::apps::workloads
