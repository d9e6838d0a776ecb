// How windows of files become readable for the device: the interface, implemented where device
// calls may be made.
#pragma once

#include <cstdint>
#include <string>

namespace gpufs::daemon {

/// A window that the device can read.
struct mapped_window {
  std::uint64_t address = 0;  ///< the device's
  std::uint64_t bytes = 0;    ///< of the file, as far as it was there
  void* host = nullptr;       ///< the mapper's
};

/// What the device's table says of a window.
struct published_window {
  std::uint64_t uid, window, address, bytes;
};

/// Used by one thread, but made and destroyed by another. Any call may take as long as the device
/// pleases: a CUDA call may wait until a kernel ends that waits for us.
class window_mapper {
 public:
  virtual ~window_mapper() = default;

  enum class outcome {
    mapped,
    no_file,    ///< the file cannot be mapped, or is shorter by now
    no_device,  ///< the device refuses, now and for good
  };

  /// Maps bytes [offset, offset + bytes) of `fd`, which the file had a moment ago. `why`: what was
  /// refused, unless it is mapped.
  [[nodiscard]] virtual outcome map(int fd, std::uint64_t offset, std::uint64_t bytes,
                                    mapped_window& out, std::string& why) = 0;

  /// Frees a window; no kernel launched from now on may find it in the table. Waits for those that
  /// run.
  virtual void unmap(mapped_window const& window) noexcept = 0;

  /// Entries of the device's table: a power of two.
  [[nodiscard]] virtual std::uint64_t entries() const noexcept = 0;

  /// Has kernels find a window in an entry of the table that is empty. False, and nothing is
  /// changed: the device refuses.
  [[nodiscard]] virtual bool publish(std::uint64_t entry,
                                     published_window const& window) noexcept = 0;

  /// Empties an entry: on return nobody finds it any more. False: the device refuses, and the entry
  /// may be found for ever.
  [[nodiscard]] virtual bool withdraw(std::uint64_t entry) noexcept = 0;

  /// Whether it looks as if no kernel were running that uses the table: then unmap() will hardly
  /// wait.
  [[nodiscard]] virtual bool idle() noexcept = 0;
};

}  // namespace gpufs::daemon
