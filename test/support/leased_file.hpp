// A file that others cannot open, as it is leased.
#pragma once

#include <test/support/files.hpp>

#include <doctest/doctest.h>

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <string>

#include <fcntl.h>
#include <unistd.h>

namespace gpufs::test {

/// A file of `size` bytes with a lease (fcntl(2)). Who opens it waits for let_go().
class leased_file {
 public:
  explicit leased_file(std::uint64_t size) : path_(make_file(folder_, "leased", size)) {
    holder_ = ::open(path_.c_str(), O_RDWR | O_CLOEXEC);
    REQUIRE(holder_ >= 0);
    is_leased_ = ::fcntl(holder_, F_SETLEASE, F_WRLCK) == 0;
    if (!is_leased_) MESSAGE("skipped: no leases here: " << std::strerror(errno));
  }
  ~leased_file() {
    ::close(holder_);
    ::signal(SIGIO, before_);
  }
  leased_file(leased_file const&) = delete;
  leased_file& operator=(leased_file const&) = delete;

  [[nodiscard]] std::string const& path() const { return path_; }
  /// False: the file system has no leases.
  [[nodiscard]] bool is_leased() const { return is_leased_; }
  /// Whether somebody wants to open the file.
  [[nodiscard]] bool is_wanted() const { return ::fcntl(holder_, F_GETLEASE) != F_WRLCK; }
  void let_go() const {
    bool const went = ::fcntl(holder_, F_SETLEASE, F_UNLCK) == 0;
    CHECK((went || errno == EAGAIN));  // the system has taken it away by now
  }

 private:
  scratch_folder folder_;
  std::string path_;
  int holder_ = -1;
  bool is_leased_ = false;
  void (*before_)(int) = ::signal(SIGIO, SIG_IGN);  // it asks the holder to let go
};

}  // namespace gpufs::test
