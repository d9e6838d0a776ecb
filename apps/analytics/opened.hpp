// A filesystem for one run, and the files that its kernels use.
#pragma once

#include <gpufs/filesystem.hpp>

#include <apps/analytics/drives.hpp>
#include <apps/analytics/kernel_errors.hpp>

#include <string>
#include <utility>
#include <vector>

namespace gpufs::apps::analytics {

/// Files that kernels use. It closes them at its end.
class opened_files {
 public:
  /// `drives`: files that are only read lie on them, as block files.
  explicit opened_files(filesystem& fs, drive_set drives = {})
      : fs_(fs), drives_(std::move(drives)) {}
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

  /// Returns the name that kernels open.
  [[nodiscard]] std::string attached(std::string const& path);

  filesystem& fs_;
  drive_set drives_;
  std::vector<std::string> paths_;
  std::vector<file> files_;
};

}  // namespace gpufs::apps::analytics
