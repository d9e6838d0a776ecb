// The streams of one thread, one for each device that it has used.
#pragma once

#include <gpufs/device.hpp>

#include <map>

namespace gpufs::cuda_device {

/// Belongs to one thread. A stream works only on the device that was current when it was made, so
/// a thread that changes devices needs one for each.
class thread_streams {
 public:
  /// `ended` becomes true when the object ends. Then late_stream() takes its place: the thread that
  /// ends the program still destroys objects of static storage, such as a filesystem.
  explicit thread_streams(bool& ended) : ended_(ended) {}
  ~thread_streams() { ended_ = true; }
  thread_streams(thread_streams const&) = delete;
  thread_streams& operator=(thread_streams const&) = delete;

  /// The stream of the device that is current now, made at the first call. The reference stays
  /// valid as long as the object. Throws device_error if the device has none.
  [[nodiscard]] stream& current() {
    return by_device_.try_emplace(current_device_number()).first->second;
  }

 private:
  bool& ended_;
  std::map<int, stream> by_device_;  // its elements do not move
};

/// The stream of threads that have no thread_streams any more. It is never destroyed. Any thread
/// calls. Throws device_error if the current device has none.
[[nodiscard]] stream& late_stream();

}  // namespace gpufs::cuda_device
