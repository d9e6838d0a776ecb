// A file without a name, for the suites of shared memory.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <vector>

#include <sys/mman.h>
#include <unistd.h>

namespace gpufs::test {

class memory_file {
 public:
  memory_file() : fd_(::memfd_create("gpufs-test", MFD_CLOEXEC)) {
    if (fd_ < 0) throw std::runtime_error("memory_file: memfd_create failed");
  }
  /// With this content; the position is its begin.
  template <class T>
  explicit memory_file(std::vector<T> const& content) : memory_file() {
    fill(content);
  }
  ~memory_file() { ::close(fd_); }
  memory_file(memory_file const&) = delete;
  memory_file& operator=(memory_file const&) = delete;

  [[nodiscard]] int fd() const { return fd_; }

  template <class T>
  void fill(std::vector<T> const& content) const {
    auto const bytes = content.size() * sizeof(T);
    if (::ftruncate(fd_, 0) != 0 || ::lseek(fd_, 0, SEEK_SET) != 0 ||
        ::pwrite(fd_, content.data(), bytes, 0) != std::int64_t(bytes))
      throw std::runtime_error("memory_file: it cannot be filled");
  }
  /// All that is in the file.
  template <class T>
  [[nodiscard]] std::vector<T> content() const {
    auto const bytes = ::lseek(fd_, 0, SEEK_END);
    std::vector<T> all(std::uint64_t(bytes) / sizeof(T));
    if (::pread(fd_, all.data(), all.size() * sizeof(T), 0) != std::int64_t(all.size() * sizeof(T)))
      throw std::runtime_error("memory_file: it cannot be read");
    return all;
  }

 private:
  int fd_;
};

}  // namespace gpufs::test
