// A filesystem for one run, and the files that its kernels use.
#pragma once

#include <gpufs/filesystem.hpp>

#include <apps/analytics/kernel_errors.hpp>

#include <string>
#include <vector>

namespace gpufs::apps::analytics {

/// Files that kernels use. It closes them at its end.
class opened_files {
 public:
  explicit opened_files(filesystem& fs) : fs_(fs) {}
  ~opened_files();
  opened_files(opened_files const&) = delete;
  opened_files& operator=(opened_files const&) = delete;

  /// Returns the descriptor for kernels. Throws std::runtime_error naming the path.
  int open(std::string const& path, int flags);
  int open(std::string const& path, int flags, advice what);

  /// Makes the bytes of a written file durable, and closes it. Throws std::runtime_error.
  void finish(int fd);

  /// The paths, in the order of open().
  [[nodiscard]] std::vector<std::string> const& paths() const { return paths_; }

 private:
  struct file {
    int fd;
    bool open;
  };

  filesystem& fs_;
  std::vector<std::string> paths_;
  std::vector<file> files_;
};

}  // namespace gpufs::apps::analytics
