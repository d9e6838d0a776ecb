// A descriptor that is closed at the end of its scope.
#pragma once

#include <cerrno>
#include <string>
#include <system_error>

#include <fcntl.h>
#include <unistd.h>

namespace gpufs::stress {

class open_file {
 public:
  /// As open(2), with mode 0644 for a new file. Throws std::system_error naming it.
  open_file(std::string const& path, int flags) : fd_(::open(path.c_str(), flags, 0644)) {
    if (fd_ < 0) throw std::system_error(errno, std::generic_category(), path);
  }
  ~open_file() { ::close(fd_); }
  open_file(open_file const&) = delete;
  open_file& operator=(open_file const&) = delete;
  [[nodiscard]] int number() const { return fd_; }

 private:
  int fd_;
};

}  // namespace gpufs::stress
