// Files that appear whole or not at all.
#pragma once

#include <filesystem>
#include <string>
#include <system_error>
#include <utility>

namespace gpufs::apps {

/// A file under another name until it is complete. If it is not completed, nothing is left of it.
class unfinished_file {
 public:
  explicit unfinished_file(std::string path) : path_(std::move(path)) {}
  ~unfinished_file() {
    std::error_code ignored;
    std::filesystem::remove(part(), ignored);  // not there any more once it has its place
  }
  unfinished_file(unfinished_file const&) = delete;
  unfinished_file& operator=(unfinished_file const&) = delete;

  /// The name under which it is to be written.
  [[nodiscard]] std::string part() const { return path_ + ".part"; }

  /// Gives it its own name. Throws std::filesystem::filesystem_error, a std::system_error, naming
  /// both.
  void put_in_place() const { std::filesystem::rename(part(), path_); }

 private:
  std::string path_;
};

}  // namespace gpufs::apps
