// The storage below the daemon: the interface. All files that the daemon serves come from here.
#pragma once

#include <host-daemon/backend/stored_file.hpp>

#include <memory>
#include <string>

#include <sys/stat.h>

namespace gpufs::daemon {

/// The result of an open: a file and its status, or null and -errno.
struct opened_file {
  std::shared_ptr<stored_file const> file;
  int error = 0;
  /// as file->status() gave it after the open had begun
  struct ::stat status {};
  /// -EAGAIN says that another process has a lease of the file, which it was asked to give up
  bool is_leased = false;
};

/// All functions are thread-safe. Errors are -errno.
class storage_backend {
 public:
  virtual ~storage_backend() = default;

  /// Opens a file for gopen's `flags`. Never waits for a peer of a FIFO or a device, nor for the
  /// holder of a lease: open_with_patience() does.
  /// A file for writing is opened for reading, too, if that is allowed. O_TRUNC and O_APPEND are
  /// not carried out: the file registry sets sizes and chooses offsets.
  /// Errors: -EISDIR, -EOPNOTSUPP (neither file nor directory), -EAGAIN (a lease), or as open(2).
  /// Throws std::bad_alloc.
  [[nodiscard]] virtual opened_file open(std::string const& path, int flags, unsigned mode) = 0;

  /// The status of the file with this name, as stat(2) has it. Returns 0 or -errno.
  [[nodiscard]] virtual int status(std::string const& path, struct ::stat& out) noexcept = 0;

  /// Removes a name, as unlink(2). Returns 0 or -errno.
  [[nodiscard]] virtual int unlink(std::string const& path) noexcept = 0;
};

}  // namespace gpufs::daemon
