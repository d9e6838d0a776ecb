// The interface by which the transfer thread copies staging to GPU memory. Device calls are made by
// its implementation alone.
#pragma once

#include <cstdint>
#include <span>

namespace gpufs::daemon {

/// A range of staging, which has the same offset in the twin.
struct copy_range {
  std::uint64_t offset;
  std::uint64_t bytes;  ///< at least 1
};

/// One thread uses it at a time. Any call may take long: a CUDA call may wait for the end of a
/// kernel that waits for the daemon.
class twin_copier {
 public:
  virtual ~twin_copier() = default;

  /// The number of batches that can be under way at once.
  [[nodiscard]] virtual unsigned depth() const noexcept = 0;

  /// Starts a batch of copies of ranges that do not touch. Fewer than depth() batches are under
  /// way. Returns false if the device refuses, now and for good; then it started nothing.
  [[nodiscard]] virtual bool start(std::span<copy_range const> ranges) noexcept = 0;

  enum class state { under_way, copied, failed };

  /// Returns the state of the oldest batch under way. `copied` and `failed` end it.
  [[nodiscard]] virtual state look_at_oldest() noexcept = 0;
};

}  // namespace gpufs::daemon
