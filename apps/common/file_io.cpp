#include <apps/common/file_io.hpp>

#include <cerrno>
#include <cstdlib>

#include <fcntl.h>
#include <unistd.h>

namespace gpufs::apps {

std::int64_t read_at(int fd, std::span<std::byte> to, std::uint64_t offset) {
  std::size_t done = 0;
  while (done < to.size()) {
    ssize_t const got =
        ::pread(fd, to.data() + done, to.size() - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return -errno;
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  return static_cast<std::int64_t>(done);
}

int write_at(int fd, std::span<std::byte const> from, std::uint64_t offset) {
  for (std::size_t done = 0; done < from.size();) {
    ssize_t const put =
        ::pwrite(fd, from.data() + done, from.size() - done, static_cast<off_t>(offset + done));
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return put < 0 ? -errno : -EIO;
    done += static_cast<std::size_t>(put);
  }
  return 0;
}

int open_nameless(std::string const& folder) {
  int const fd = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR)) return fd;
  // The file system of this folder cannot make it without a name.
  std::string name = folder + "/gpufs-XXXXXX";
  int const named = ::mkostemp(name.data(), O_CLOEXEC);
  if (named >= 0) ::unlink(name.c_str());
  return named;
}

}  // namespace gpufs::apps
