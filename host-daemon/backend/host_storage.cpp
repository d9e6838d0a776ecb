// Opening and removing ordinary files.
#include <gpufs/base/above_stderr.hpp>

#include <host-daemon/backend/host_file.hpp>
#include <host-daemon/backend/host_storage.hpp>
#include <host-daemon/base/interrupted.hpp>
#include <host-daemon/base/open_kind.hpp>

#include <cerrno>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace gpufs::daemon {

namespace {

bool makes_file(int flags) { return (flags & O_CREAT) != 0 && (flags & O_EXCL) != 0; }

// Opens `path` and never waits for a peer of a FIFO or a device, nor for the holder of a lease:
// that is asked to give it up, and -EAGAIN says so. Returns the descriptor or -errno.
int open_without_waiting(std::string const& path, int flags, unsigned mode) {
  // The mere open of a special file can have effects: it wakes a FIFO's writer or rewinds a tape.
  // So stat comes first. open() judges what stat refuses and links that must not be followed.
  struct ::stat status {};
  auto const stated =
      (flags & O_NOFOLLOW) != 0 ? ::lstat(path.c_str(), &status) : ::stat(path.c_str(), &status);
  if (stated == 0 && !S_ISLNK(status.st_mode))
    if (int const error = kind_error(status.st_mode)) return makes_file(flags) ? -EEXIST : error;
  return while_interrupted([&] {
    int const fd =
        base::above_stderr(::open(path.c_str(), flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, mode));
    return fd >= 0 ? fd : -errno;
  });
}

// The daemon reads pages before it writes parts of them. So write-only opens ask for both. Only
// write_once needs no reads.
int open_for_daemon(std::string const& path, int flags, unsigned mode) {
  bool const never_reads = (flags & write_once) != 0;
  flags &= ~(O_TRUNC | O_APPEND | write_once);
  if ((flags & O_ACCMODE) == O_WRONLY) {
    int const fd = open_without_waiting(path, (flags & ~O_ACCMODE) | O_RDWR, mode);
    if (fd != -EACCES || !never_reads) return fd;
  }
  return open_without_waiting(path, flags, mode);
}

}  // namespace

int kind_error(mode_t mode) noexcept {
  return S_ISREG(mode) ? 0 : S_ISDIR(mode) ? -EISDIR : -EOPNOTSUPP;
}

opened_file host_storage::open(std::string const& path, int flags, unsigned mode) {
  int const fd = open_for_daemon(path, flags, mode);
  if (fd < 0) return {.file = nullptr, .error = fd, .is_leased = fd == -EAGAIN};
  std::shared_ptr<host_file const> file;
  try {
    file = std::make_shared<host_file const>(fd, path);
  } catch (...) {
    ::close(fd);
    throw;
  }
  opened_file opened{};
  if (int const error = file->status(opened.status)) return {nullptr, error};
  if (int const error = kind_error(opened.status.st_mode)) return {nullptr, error};
  // With O_NONBLOCK io_uring answers EAGAIN where the file system cannot read at once. Without it,
  // io_uring waits on a thread of the kernel.
  if (::fcntl(fd, F_SETFL, 0) != 0) return {nullptr, -errno};
  opened.file = std::move(file);
  return opened;
}

int host_storage::status(std::string const& path, struct ::stat& out) noexcept {
  return ::stat(path.c_str(), &out) == 0 ? 0 : -errno;
}

int host_storage::unlink(std::string const& path) noexcept {
  return ::unlink(path.c_str()) == 0 ? 0 : -errno;
}

}  // namespace gpufs::daemon
