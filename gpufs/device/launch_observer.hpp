// What is told of every launch, so that shared memory is handed to kernels that know nothing of it.
#pragma once

#include <gpufs/device.hpp>

#include <atomic>

namespace gpufs::device {

class launch_observer {
 public:
  virtual ~launch_observer() = default;
  /// Before a launch. Returns whether after_launch() is to be called. If it throws, there is no
  /// launch.
  virtual bool before_launch(stream& on) = 0;
  /// Behind the launch, or after it was refused.
  virtual void after_launch(stream& on) noexcept = 0;
};

/// The observer, or null. It is set once and lives until the process ends.
inline std::atomic<launch_observer*> observer{nullptr};

/// A launch that the observer is told of.
class observed_launch {
 public:
  explicit observed_launch(stream& on) : on_(on) {
    // Pairs with the store where the first shared_memory is made.
    auto* const told = observer.load(std::memory_order_acquire);
    if (told != nullptr && told->before_launch(on)) observer_ = told;
  }
  ~observed_launch() {
    if (observer_ != nullptr) observer_->after_launch(on_);
  }
  observed_launch(observed_launch const&) = delete;
  observed_launch& operator=(observed_launch const&) = delete;

 private:
  stream& on_;
  launch_observer* observer_ = nullptr;
};

}  // namespace gpufs::device
