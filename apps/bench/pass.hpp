// One pass over a file by a plan, from an empty cache, and the check of its bytes.
#pragma once

#include <gpufs/config.hpp>
#include <gpufs/filesystem.hpp>
#include <gpufs/statistics.hpp>

#include <apps/baseline/original.hpp>
#include <apps/bench/access_plan.hpp>
#include <apps/bench/kernels.hpp>
#include <apps/common/host_file.hpp>
#include <apps/common/run_report.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace gpufs::apps {

/// An open file of a filesystem.
class opened {
 public:
  /// Opens kernel_path(). A block file is attached, and memory gets the bytes of `file` first.
  /// Throws std::runtime_error naming the file, and as filesystem::attach().
  opened(filesystem& fs, host_file const& file);
  ~opened();
  opened(opened const&) = delete;
  opened& operator=(opened const&) = delete;
  [[nodiscard]] int fd() const { return fd_; }

 private:
  filesystem& fs_;
  int fd_;
};

/// Throws std::runtime_error if a gread of the last kernel failed.
void require_success(bench_failure const& f);

/// What a comparison with pread came to.
struct comparison {
  std::uint64_t checked = 0;  ///< requests
  std::string mismatch;       ///< what differs first; empty if nothing does
};

/// Compares the checksums of the requests of the plan with those of the bytes from pread.
[[nodiscard]] comparison compare_with_pread(host_file const& file, access_plan const& plan,
                                            std::vector<std::uint64_t> const& got);

/// One pass, timed.
struct pass_result {
  double seconds = 0;
  std::uint64_t bytes = 0;  ///< that the plan reads
  statistics counters;
  std::uint64_t device_commands = 0;  ///< of kernels themselves, to a block file

  [[nodiscard]] double GBps() const { return gigabytes_per_second(bytes, seconds); }
};

/// A pass with a filesystem of its own. `check`: reads once more, untimed, and throws
/// std::runtime_error if the bytes are not those of pread. `windows_first`: calls
/// register_windows() of apps/common before. Other errors as run_bench().
[[nodiscard]] pass_result read_once(host_file const& file, config const& settings,
                                    access_plan const& plan, bench_shape shape, bool check,
                                    bool windows_first = false);

struct original_result {
  double seconds = 0;
  original::statistics counters;
};

/// The same with our model of GPUfs. Without options::transfers it only sends the requests; then
/// `check` must be false.
[[nodiscard]] original_result read_once_original(host_file const& file,
                                                 original::options const& settings,
                                                 access_plan const& plan, bench_shape shape,
                                                 bool check);

/// The baseline's options that correspond to gpufs's settings.
[[nodiscard]] original::options original_options(config const& settings);

}  // namespace gpufs::apps
