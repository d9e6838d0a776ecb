// Common to `bench ratios` and `bench paper`: file, shape, settings, and single measurements in
// GB/s.
#pragma once

#include <gpufs/config.hpp>

#include <apps/bench/bench_file.hpp>
#include <apps/bench/pass.hpp>
#include <apps/common/baselines.hpp>
#include <apps/common/program.hpp>

#include <cstdint>
#include <functional>
#include <string>

namespace CLI {
class App;
}

namespace gpufs::apps {

struct study_options {
  std::string file;  ///< empty: a temporary one
  std::string folder;
  std::string size = "0";  ///< 0: as the study says
  std::string request = "128K";
  std::int64_t blocks = not_given;   ///< 120, emulated 8
  std::int64_t threads = not_given;  ///< 512, emulated 64
  std::int64_t runs = not_given;     ///< as the study says
  std::int64_t baseline_threads = 4;
  std::uint64_t seed = 1;
  bool no_verify = false;
};

/// Adds them to the subcommand, which falls through to its parent for the settings.
void add_options(CLI::App& command, study_options& o);

/// Fills in what was not given, for the device that is there, and checks. Throws usage_error,
/// device_error if there is no device.
void complete(study_options& o, std::int64_t runs);

/// Settings for a filesystem that is made quickly: on the emulated device with less pinned memory
/// than by default.
[[nodiscard]] config study_defaults();

/// One file and how it is read. All rates are of one pass from an empty cache, in GB/s.
class study {
 public:
  /// Reads the first `bytes` bytes of the file.
  study(study_options const& o, config const& settings, host_file const& file, std::uint64_t bytes);

  [[nodiscard]] host_file const& file() const { return file_; }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  [[nodiscard]] config const& settings() const { return settings_; }
  [[nodiscard]] bench_shape shape() const { return shape_; }
  [[nodiscard]] study_options const& options() const { return options_; }

  /// Sequential: each block reads its own part, in requests of `request` bytes.
  [[nodiscard]] access_plan plan(std::uint64_t blocks, std::uint64_t bytes,
                                 std::uint64_t request) const;
  [[nodiscard]] access_plan plan() const { return plan(shape_.blocks, bytes_, request_); }

  /// Whether the passes check their bytes (untimed), which costs as long again.
  void check_bytes(bool on) { check_ = on && !options_.no_verify; }
  [[nodiscard]] bool checking() const { return check_; }

  /// What is done before each pass: by default nothing.
  void prepare_with(std::function<void()> prepare) { prepare_ = std::move(prepare); }

  /// The bytes that passes of gpufs wanted, and the counters of what they read, since the study
  /// was made.
  [[nodiscard]] std::uint64_t wanted_bytes() const { return wanted_bytes_; }
  [[nodiscard]] statistics const& counters() const { return counters_; }

  double gpufs_GBps(config const& c, access_plan const& p) const;
  /// One pass as by read_once(), which is counted.
  pass_result gpufs_pass(config const& c, access_plan const& p, bench_shape shape, bool check,
                         bool windows_first = false) const;
  double original_GBps(original::options const& o, access_plan const& p) const;
  double cpuio_GBps() const;
  double best_pipelined_GBps() const;

  /// The options of our model of GPUfs at a page size, with a cache of `cache_bytes`.
  [[nodiscard]] original::options original_at(std::uint64_t page_size,
                                              std::uint64_t cache_bytes) const;

  /// The settings at a page size, readahead and cache size; with enough pinned memory for them.
  [[nodiscard]] config settings_at(std::uint64_t page_size, std::uint64_t prefetch_size,
                                   std::uint64_t cache_bytes) const;

  /// A cache size that holds all that is read.
  [[nodiscard]] std::uint64_t fitting_cache() const {
    return bytes_ + bytes_ / 8 + (std::uint64_t(shape_.blocks) << 20);
  }

 private:
  study_options options_;
  config settings_;
  host_file const& file_;
  std::uint64_t bytes_;
  std::uint64_t request_;
  bench_shape shape_;
  bool check_ = false;
  mutable std::uint64_t wanted_bytes_ = 0;
  mutable statistics counters_;  ///< only the bytes from the host, and registering_ns
  std::function<void()> prepare_ = [] {};
};

}  // namespace gpufs::apps
