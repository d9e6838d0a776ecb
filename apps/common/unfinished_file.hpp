// Files that appear whole or not at all.
#pragma once

#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <random>
#include <string>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

namespace gpufs::apps {

/// A file under another name until it is complete. If it is not completed, nothing is left of it.
class unfinished_file {
 public:
  /// Makes the file, empty, under a name beside `path` that is free and that nobody can guess.
  /// Throws std::system_error naming it.
  explicit unfinished_file(std::string path) : path_(std::move(path)) {
    std::random_device random;
    int fd = -1;
    do {
      std::uint64_t const number = std::uint64_t(random()) << 32 | random();
      part_ = path_ + ".part-" + std::to_string(number);
      // O_EXCL: never a file or a link that another process has put there.
      fd = ::open(part_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
    } while (fd < 0 && errno == EEXIST);
    if (fd < 0) throw std::system_error(errno, std::generic_category(), part_);
    ::close(fd);
  }
  ~unfinished_file() {
    std::error_code ignored;
    std::filesystem::remove(part(), ignored);  // not there any more once it has its place
  }
  unfinished_file(unfinished_file const&) = delete;
  unfinished_file& operator=(unfinished_file const&) = delete;

  /// The name under which it is to be written.
  [[nodiscard]] std::string const& part() const { return part_; }

  /// Opens it for writing. Returns the descriptor, or -1 with errno.
  [[nodiscard]] int open_part() const {
    return ::open(part_.c_str(), O_WRONLY | O_TRUNC | O_NOFOLLOW | O_CLOEXEC);
  }

  /// Gives it its own name. Throws std::filesystem::filesystem_error, a std::system_error, naming
  /// both.
  void put_in_place() const { std::filesystem::rename(part(), path_); }

 private:
  std::string path_;
  std::string part_;
};

}  // namespace gpufs::apps
