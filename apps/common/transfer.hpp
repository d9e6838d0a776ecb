// Copies to the device that the host does not wait for, as programs without gpufs make them: what
// the baselines are built from.
#pragma once

#include <gpufs/device.hpp>

#include <cstdint>

namespace gpufs::apps {

/// A stream of copies. Emulated: each is over when it returns.
class transfer_queue {
 public:
  /// Queues a copy of `bytes` bytes from pinned host memory, which must stay as it is until the
  /// copy is over. Throws device_error if the device refuses.
  void copy_to_device(void* device, void const* host, std::uint64_t bytes);

  /// Puts `point` behind the copies so far.
  void record(event& point) { point.record(stream_); }

  /// Waits for all copies. Throws device_error if one failed.
  void synchronize() { stream_.synchronize(); }

 private:
  stream stream_;
};

}  // namespace gpufs::apps
