// The streams of one thread, one for each device that it has used.
#pragma once

#include <gpufs/device.hpp>

#include <map>

namespace gpufs::cuda_device {

/// Belongs to one thread. A stream works only on the device that was current when it was made, so
/// a thread that changes devices needs one for each.
class thread_streams {
 public:
  /// The stream of the device that is current now, made at the first call. The reference stays
  /// valid as long as the object. Throws device_error if the device has none.
  [[nodiscard]] stream& current() {
    return by_device_.try_emplace(current_device_number()).first->second;
  }

 private:
  std::map<int, stream> by_device_;  // its elements do not move
};

}  // namespace gpufs::cuda_device
