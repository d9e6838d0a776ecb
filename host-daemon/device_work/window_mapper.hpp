// The interface by which the window thread registers file windows for the device. Device calls are
// made by its implementation alone.
#pragma once

#include <cstdint>
#include <string>

namespace gpufs::daemon {

/// A file window that the device can read.
struct registered_window {
  std::uint64_t address = 0;  ///< the device's
  std::uint64_t bytes = 0;    ///< of the file; fewer than asked at its end
  void* host = nullptr;       ///< the mapper's
};

/// The entry of a file window in the device's table.
struct published_window {
  std::uint64_t version, window, address, bytes;
};

/// One thread uses it; others make and destroy it. Any call may take long: a CUDA call may wait for
/// the end of a kernel that waits for the daemon.
class window_mapper {
 public:
  virtual ~window_mapper() = default;

  enum class outcome {
    mapped,
    no_file,    ///< the file cannot be mapped, or is shorter by now
    no_device,  ///< the device refuses, now and for good
  };

  /// Maps bytes [offset, offset + bytes) of `fd`, which the file had a moment ago. `why`: the
  /// refusal, unless the result is `mapped`.
  [[nodiscard]] virtual outcome map(int fd, std::uint64_t offset, std::uint64_t bytes,
                                    registered_window& out, std::string& why) = 0;

  /// Frees a window. It waits for kernels that run. Kernels launched later may not find it in the
  /// table.
  virtual void unmap(registered_window const& window) noexcept = 0;

  /// The number of entries of the device's table, a power of two.
  [[nodiscard]] virtual std::uint64_t entries() const noexcept = 0;

  /// Lets kernels find a window in an empty entry of the table. Returns false, with nothing
  /// changed, if the device refuses.
  [[nodiscard]] virtual bool publish(std::uint64_t entry,
                                     published_window const& window) noexcept = 0;

  /// Empties an entry. After that no kernel finds it. Returns false if the device refuses; kernels
  /// may find it for ever then.
  [[nodiscard]] virtual bool withdraw(std::uint64_t entry) noexcept = 0;

  /// Returns whether it seems that no running kernel uses the table. Then unmap() will hardly wait.
  [[nodiscard]] virtual bool idle() noexcept = 0;
};

}  // namespace gpufs::daemon
