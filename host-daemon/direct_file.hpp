// The second descriptor of an open file: for reads with O_DIRECT, past the OS page cache.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

namespace gpufs::daemon {

/// What offsets and lengths of reads, and the addresses they go to, must be multiples of: powers of
/// two.
struct direct_alignment {
  std::uint32_t offset, memory;
};

/// Thread-safe once made. The last owner closes the descriptor.
class direct_file {
 public:
  /// Opens the file behind `fd` once more. Where that is refused, or would bypass nothing (files
  /// that live in memory), the object is not usable() and why_not() says so.
  explicit direct_file(int fd);
  ~direct_file();
  direct_file(direct_file const&) = delete;
  direct_file& operator=(direct_file const&) = delete;

  [[nodiscard]] bool usable() const noexcept {
    return usable_.load(std::memory_order_relaxed);
  }  // orders nothing

  /// The file system refused a read that was aligned as it asks for: do not try again.
  void give_up() const noexcept { usable_.store(false, std::memory_order_relaxed); }

  [[nodiscard]] int fd() const noexcept { return fd_; }

  [[nodiscard]] direct_alignment alignment() const noexcept { return alignment_; }

  /// Why it was not usable from the start; empty if it was.
  [[nodiscard]] std::string const& why_not() const noexcept { return why_not_; }

  static constexpr std::uint32_t usual_alignment =
      4096;  ///< of file systems that do not tell theirs

 private:
  int fd_ = -1;
  direct_alignment alignment_{usual_alignment, usual_alignment};
  std::string why_not_;
  mutable std::atomic<bool> usable_{false};
};

}  // namespace gpufs::daemon
