// Descriptors that are not those of the standard streams.
#pragma once

#include <cerrno>

#include <fcntl.h>
#include <unistd.h>

namespace gpufs::base {

/// `fd`, or in its place a copy that is none of stdin, stdout and stderr. If the process has closed
/// them, files that are opened get their numbers, and what it prints would stand in those files.
/// Returns -1 with errno if there is no copy, and for a negative `fd`.
inline int above_stderr(int fd) noexcept {
  if (fd < 0 || fd > STDERR_FILENO) return fd;
  int const copy = ::fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  int const error = errno;
  ::close(fd);
  errno = error;
  return copy;
}

}  // namespace gpufs::base
