// The second descriptor of an open file, for reads with O_DIRECT past the OS page cache.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace gpufs::daemon {

/// The units of a read with O_DIRECT, powers of two. `offset`: of offsets and lengths in the file.
/// `memory`: of addresses.
struct direct_alignment {
  std::uint32_t offset, memory;
};

/// Thread-safe once it is made. Its last owner closes the descriptor.
class direct_file {
 public:
  /// Opens the file behind `fd` once more. If the file system refuses, or keeps its files in memory
  /// anyway, the object is not usable() and why_not() says so.
  explicit direct_file(int fd);
  ~direct_file();
  direct_file(direct_file const&) = delete;
  direct_file& operator=(direct_file const&) = delete;

  // The load orders nothing.
  [[nodiscard]] bool usable() const noexcept { return usable_.load(std::memory_order_relaxed); }

  /// Called when the file system refused a read that was aligned as it asks. No read goes direct
  /// after that.
  void give_up() const noexcept { usable_.store(false, std::memory_order_relaxed); }

  [[nodiscard]] int fd() const noexcept { return fd_; }

  /// Reads as pread(2), past the OS page cache. All three arguments must be aligned. Returns the
  /// bytes read or -errno.
  [[nodiscard]] std::int64_t read(std::span<std::byte> to, std::uint64_t offset) const noexcept;

  [[nodiscard]] direct_alignment alignment() const noexcept { return alignment_; }

  /// The reason if it was not usable from the start, else empty.
  [[nodiscard]] std::string const& why_not() const noexcept { return why_not_; }

  /// For file systems that do not tell their alignment.
  static constexpr std::uint32_t usual_alignment = 4096;

 private:
  int fd_ = -1;
  direct_alignment alignment_{usual_alignment, usual_alignment};
  std::string why_not_;
  mutable std::atomic<bool> usable_{false};
};

}  // namespace gpufs::daemon
