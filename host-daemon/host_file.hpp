// Files of the host: opened without waiting for anyone, closed by their last owner.
#pragma once

#include <host-daemon/direct_file.hpp>

#include <mutex>
#include <optional>
#include <string>

#include <sys/types.h>

namespace gpufs::daemon {

/// 0 for what can be read as a file, else why not: -EISDIR, -EOPNOTSUPP.
[[nodiscard]] int kind_error(mode_t mode) noexcept;

/// Opens a file as gopen means `flags`, without ever waiting for a peer of a FIFO or a device: for
/// reading, too, where writing is wanted and reading allowed, with neither O_TRUNC nor O_APPEND.
/// Returns the descriptor, or -EISDIR, -EOPNOTSUPP, or what open(2) says.
[[nodiscard]] int open_host_file(std::string const& path, int flags, unsigned mode) noexcept;

/// An open file of the host; the last owner closes it.
class host_file {
 public:
  explicit host_file(int fd) noexcept : fd_{fd} {}
  host_file(host_file const&) = delete;
  host_file& operator=(host_file const&) = delete;
  ~host_file();

  [[nodiscard]] int fd() const noexcept { return fd_; }

  /// The file for reads with O_DIRECT, opened at the first call. Thread-safe. Throws
  /// std::bad_alloc.
  [[nodiscard]] direct_file const& direct() const;

 private:
  int fd_;
  mutable std::mutex opening_;  // guards the next
  mutable std::optional<direct_file> direct_;
};

}  // namespace gpufs::daemon
