// Opening and closing files of the host.
#include <host-daemon/host_file.hpp>
#include <host-daemon/open_kind.hpp>

#include <cerrno>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace gpufs::daemon {

namespace {

// Opens `path` without ever waiting for a peer of a FIFO or a device. Returns the descriptor or
// -errno.
int open_without_waiting(std::string const& path, int flags, unsigned mode) {
  // Even opening something that is not a file can have effects (wake the writer of a FIFO, rewind a
  // tape), so look first. A symbolic link that is not to be followed, and whatever stat refuses, is
  // for open() to judge.
  struct ::stat status {};
  auto const stated =
      (flags & O_NOFOLLOW) != 0 ? ::lstat(path.c_str(), &status) : ::stat(path.c_str(), &status);
  if (stated == 0 && !S_ISLNK(status.st_mode))
    if (int const error = kind_error(status.st_mode)) return error;
  int fd;
  do fd = ::open(path.c_str(), flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, mode);
  while (fd < 0 && errno == EINTR);
  return fd >= 0 ? fd : -errno;
}

}  // namespace

int kind_error(mode_t mode) noexcept {
  return S_ISREG(mode) ? 0 : S_ISDIR(mode) ? -EISDIR : -EOPNOTSUPP;
}

// Pages that are written in part are read first, so a file is opened for both if that is allowed.
// Offsets are ours to choose: no O_APPEND.
int open_host_file(std::string const& path, int flags, unsigned mode) noexcept {
  flags &= ~(O_TRUNC | O_APPEND | write_once);
  if ((flags & O_ACCMODE) == O_WRONLY) {
    int const fd = open_without_waiting(path, (flags & ~O_ACCMODE) | O_RDWR, mode);
    if (fd != -EACCES) return fd;
  }
  return open_without_waiting(path, flags, mode);
}

host_file::~host_file() { ::close(fd_); }

direct_file const& host_file::direct() const {
  std::lock_guard const lock{opening_};
  if (!direct_) direct_.emplace(fd_);
  return *direct_;
}

}  // namespace gpufs::daemon
