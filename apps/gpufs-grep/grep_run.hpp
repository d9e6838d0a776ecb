// Runs the grep kernel over a list of files.
#pragma once

#include <gpufs/filesystem.hpp>

#include <apps/gpufs-grep/file_list.hpp>
#include <apps/gpufs-grep/grep_job.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace gpufs::apps {

struct grep_shape {
  unsigned blocks = 1;
  unsigned threads = 32;
  std::uint64_t chunk_bytes = 64 << 10;  ///< per gread; a multiple of 8, at least 2 * front_bytes
  std::uint64_t range_bytes =
      16 << 20;  ///< larger files are shared out among blocks in such ranges
};

/// A kernel at work on a list of files.
class grep_run {
 public:
  /// Allocates and copies, but does not start. Throws device_error if the device has no room.
  grep_run(std::vector<listed_file> const& files, search_word const& word, grep_shape const& shape);
  ~grep_run();
  grep_run(grep_run const&) = delete;
  grep_run& operator=(grep_run const&) = delete;

  [[nodiscard]] std::uint64_t ranges() const;

  /// Runs the kernel to its end. `show` is called now and then with the ranges done; if there is
  /// none the host just waits. Returns the seconds it took. Throws device_error.
  double run(fs_ref const& fs, std::function<void(std::uint64_t)> const& show);

  /// For each file the matching lines, or -errno. After run().
  [[nodiscard]] std::vector<std::int64_t> counts() const;

 private:
  struct state;
  std::unique_ptr<state> state_;
};

}  // namespace gpufs::apps
