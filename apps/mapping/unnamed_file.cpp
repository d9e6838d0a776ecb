#include <apps/mapping/unnamed_file.hpp>

#include <cerrno>
#include <cstdlib>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

namespace gpufs::apps::workloads {

namespace {

[[noreturn]] void fail(int error, std::string const& folder) {
  throw std::system_error(error, std::generic_category(), "a file without a name in " + folder);
}

int open_in(std::string const& folder) {
  int fd = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR)) return fd;
  std::string path = folder + "/gpufs-mapping-XXXXXX";  // the file system has no such files
  fd = ::mkostemp(path.data(), O_CLOEXEC);
  if (fd >= 0) ::unlink(path.c_str());
  return fd;
}

}  // namespace

unnamed_file::unnamed_file(std::string folder) : folder_(std::move(folder)), fd_(open_in(folder_)) {
  if (fd_ < 0) fail(errno, folder_);
}

unnamed_file::~unnamed_file() { ::close(fd_); }

void unnamed_file::put(std::span<std::byte const> bytes, std::uint64_t offset) {
  while (!bytes.empty()) {
    auto const n = ::pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) fail(n == 0 ? EIO : errno, folder_);
    bytes = bytes.subspan(static_cast<std::size_t>(n));
    offset += static_cast<std::uint64_t>(n);
  }
}

void unnamed_file::get(std::span<std::byte> bytes, std::uint64_t offset) const {
  while (!bytes.empty()) {
    auto const n = ::pread(fd_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) fail(n == 0 ? EIO : errno, folder_);
    bytes = bytes.subspan(static_cast<std::size_t>(n));
    offset += static_cast<std::uint64_t>(n);
  }
}

}  // namespace gpufs::apps::workloads
