// Host side of kernels that read an application's files: filesystem, paths and failure record.
#pragma once

#include <gpufs/filesystem.hpp>

#include <apps/harness/chunk_io.hpp>
#include <apps/harness/data_set.hpp>

#include <string>
#include <vector>

namespace gpufs::apps {

/// A filesystem, and the files' names where kernels can read them.
class gread_files {
 public:
  /// Throws as gpufs::filesystem does.
  explicit gread_files(config const& settings);

  /// What a kernel needs to read `files`, most_files at most. Valid until the next call. `sums`:
  /// its checksums start at zero.
  [[nodiscard]] chunk_io access(std::vector<data_file const*> const& files, std::uint64_t request,
                                bool sums);

  /// After the kernel: throws std::runtime_error naming file, offset and error if a read failed.
  void require_success() const;

  /// After the kernel, if access() was asked for sums: one for each file.
  [[nodiscard]] std::vector<std::uint64_t> checksums() const;

  [[nodiscard]] filesystem& fs() { return fs_; }
  [[nodiscard]] filesystem const& fs() const { return fs_; }

 private:
  filesystem fs_;
  std::vector<std::string> names_;
  buffer<char> paths_;
  buffer<io_failure> failure_;
  buffer<unsigned long long> checksums_;
};

}  // namespace gpufs::apps
