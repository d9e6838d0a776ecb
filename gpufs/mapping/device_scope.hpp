// Makes a thread of the program one of the library's for a while.
#pragma once

#include <gpufs/device.hpp>
#include <gpufs/device/memory.hpp>

namespace gpufs::shared {

/// While it lives, the device is current in the thread, and the thread's calls of CUDA neither fail
/// nor invalidate a graph that some thread captures.
class device_scope {
 public:
  /// Throws device_error.
  explicit device_scope(int device) {
    if (device != current_device_number()) make_device_current(device);
  }

 private:
  device_memory::borrowed_thread const own_;
};

}  // namespace gpufs::shared
