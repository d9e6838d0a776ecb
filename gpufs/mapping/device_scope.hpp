// Makes a device current in a thread for a while.
#pragma once

#include <gpufs/device.hpp>

namespace gpufs::shared {

class device_scope {
 public:
  /// Throws device_error.
  explicit device_scope(int device) : before_(current_device_number()), device_(device) {
    if (device_ != before_) make_device_current(device_);
  }
  ~device_scope() {
    try {
      if (device_ != before_) make_device_current(before_);
    } catch (device_error const&) {  // it was current before; the next call of the thread reports
    }
  }
  device_scope(device_scope const&) = delete;
  device_scope& operator=(device_scope const&) = delete;

 private:
  int before_, device_;
};

}  // namespace gpufs::shared
