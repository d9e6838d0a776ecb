// Errors of the host's file system as results of calls.
#pragma once

#include <cerrno>

namespace gpufs::daemon {

/// Returns what a call reports for `error` (-errno or 0) of the file system. -ETIMEDOUT and -EAGAIN
/// say as results of our calls that nothing was reported. File servers give them, too: then -EIO.
inline int reported_error(int error) noexcept {
  return error == -ETIMEDOUT || error == -EAGAIN ? -EIO : error;
}

}  // namespace gpufs::daemon
