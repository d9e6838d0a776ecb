// How the transfer thread copies staging to GPU memory: the interface, implemented where device
// calls may be made.
#pragma once

#include <cstdint>
#include <span>

namespace gpufs::daemon {

/// Bytes of staging, and the place of their copy in its twin.
struct copy_range {
  std::uint64_t offset;
  std::uint64_t bytes;  ///< at least 1
};

/// Used by one thread at a time. Any call may take as long as the device pleases: a CUDA call may
/// wait until a kernel ends that waits for us.
class twin_copier {
 public:
  virtual ~twin_copier() = default;

  /// Batches that can be under way at once.
  [[nodiscard]] virtual unsigned depth() const noexcept = 0;

  /// Starts a batch of copies, ranges apart from each other. Fewer than depth() batches are under
  /// way. False: the device refuses, now and for good, and nothing was started.
  [[nodiscard]] virtual bool start(std::span<copy_range const> ranges) noexcept = 0;

  enum class state { under_way, copied, failed };

  /// What has become of the oldest batch under way; anything but `under_way` is the end of it.
  [[nodiscard]] virtual state look_at_oldest() noexcept = 0;
};

}  // namespace gpufs::daemon
