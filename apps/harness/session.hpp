// One application at one size, with its files on disk and its arrays on the device. Runs it in
// every way, and checks the results.
#pragma once

#include <gpufs/device.hpp>
#include <gpufs/statistics.hpp>

#include <apps/harness/data_set.hpp>
#include <apps/harness/gread_files.hpp>
#include <apps/harness/loader.hpp>
#include <apps/harness/port.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace gpufs::apps {

/// By the host's clock, from before the first byte is read until the results are in device memory.
struct run_times {
  double seconds = 0;          ///< io + compute
  double io_seconds = 0;       ///< fused: everything
  double compute_seconds = 0;  ///< fused: 0
  std::optional<statistics> counters;
};

/// A file that stays in memory, so that nothing can be measured cold.
struct not_cold : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class session {
 public:
  /// Makes or finds the files (`folder` empty: nameless ones) and allocates the arrays. Throws
  /// usage_error, device_error or std::system_error.
  session(port_description const& what, problem const& which, std::string const& folder);
  session(session const&) = delete;
  session& operator=(session const&) = delete;

  [[nodiscard]] port& application() { return *port_; }
  [[nodiscard]] data_set const& data() const { return *data_; }
  /// Bytes that one run reads.
  [[nodiscard]] std::uint64_t bytes_read() const;
  [[nodiscard]] std::uint64_t largest_file() const;

  /// Makes all files cold, or warm, in the OS page cache. Where a file cannot be made cold (on
  /// tmpfs, say), the first throws not_cold naming it.
  void drop_from_page_cache() const;
  void load_into_page_cache() const;

  /// Zeroes all arrays, then loads and computes. Throws what the loader throws.
  run_times run(loader& by);

  /// Zeroes the outputs, then runs the fused computation. `sums`: takes checksums of what was read,
  /// for integrity_of().
  run_times run_fused(gread_files& files, io_shape shape, bool sums);

  /// Level 1, after run(): what lies in the input arrays is what was generated. Empty, or what is
  /// wrong.
  [[nodiscard]] std::string integrity() const;
  /// The same after run_fused() with sums.
  [[nodiscard]] std::string integrity_of(gread_files const& files) const;

  /// A checksum of each output of the last run.
  [[nodiscard]] std::vector<std::uint64_t> output_checksums() const;

  /// Outputs of the last run. Levels 2 and 3 are difference() and port::check().
  [[nodiscard]] host_outputs outputs() const;

  /// For tests: the arrays themselves.
  [[nodiscard]] std::vector<buffer<std::byte>>& input_arrays() { return inputs_; }

 private:
  void clear_outputs();
  [[nodiscard]] device_arrays arrays(bool with_inputs) const;

  std::unique_ptr<port> port_;
  std::vector<output_array> shapes_;
  std::vector<unsigned> reads_;
  std::unique_ptr<data_set> data_;
  std::vector<buffer<std::byte>> inputs_;
  std::vector<buffer<std::byte>> outputs_;
};

/// Bytes that one run of the application reads.
[[nodiscard]] std::uint64_t bytes_read_by(port const& application);

/// What decides the contents of an application's files, as text: "2dconv smoke rand 42".
[[nodiscard]] std::string origin_of(port_description const& what, problem const& which);

[[nodiscard]] std::string_view name_of(size_class size);

}  // namespace gpufs::apps
