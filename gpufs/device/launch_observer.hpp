// What is told of every launch, so that shared memory is handed to kernels that know nothing of it.
#pragma once

#include <gpufs/device.hpp>

#include <atomic>
#include <memory>

namespace gpufs::device {

class launch_observer {
 public:
  /// What is to be done behind a launch, or after it was refused: its destructor does it.
  class under_way {
   public:
    virtual ~under_way() = default;
  };

  virtual ~launch_observer() = default;
  /// Before a launch. Null: nothing is to be done behind it. If it throws, there is no launch.
  virtual std::unique_ptr<under_way> before_launch(stream& on) = 0;
};

/// The observer, or null. It is set once and lives until the process ends.
inline std::atomic<launch_observer*> observer{nullptr};

/// To be kept until the launch is on its stream.
[[nodiscard]] inline std::unique_ptr<launch_observer::under_way> observe_launch(stream& on) {
  // Pairs with the store where the first shared_memory is made.
  auto* const told = observer.load(std::memory_order_acquire);
  return told == nullptr ? nullptr : told->before_launch(on);
}

}  // namespace gpufs::device
