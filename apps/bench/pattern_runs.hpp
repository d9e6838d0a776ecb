// Measures one row of `gpufs bench patterns` once: gpufs, then the hand-written equivalent.
#pragma once

#include <gpufs/config.hpp>
#include <gpufs/device.hpp>
#include <gpufs/statistics.hpp>

#include <apps/bench/array_rates.hpp>
#include <apps/bench/pattern_kernels.hpp>
#include <apps/bench/pattern_rows.hpp>
#include <apps/bench/small_files.hpp>
#include <apps/bench/study.hpp>
#include <apps/common/host_file.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

namespace gpufs::apps {

/// What all rows have in common.
struct pattern_setup {
  host_file const& file;
  config settings;
  bench_shape shape;           ///< of whole blocks
  std::string folder;          ///< for files that are written, and for small files
  std::string tmpfs;           ///< the same on tmpfs
  std::uint64_t largest;       ///< bytes of the largest row
  std::uint64_t pinned_bytes;  ///< of what kernels pull from, to compare with
  std::uint64_t seed;
};

/// What one measurement of a row came to.
struct pattern_outcome {
  double rate = 0;                   ///< in the unit of the row
  std::optional<double> equivalent;  ///< the same of the hand-written equivalent
  statistics counters;
  std::uint64_t wanted = 0;  ///< bytes that the kernel asked for, or wrote
  touched_bytes touched;

  /// Bytes that came from the host's files, by the daemon or out of file windows; of rows that
  /// write, bytes that went to them.
  [[nodiscard]] std::uint64_t host_bytes() const {
    return counters.host_bytes + counters.bytes_registered + counters.host_bytes_written;
  }
};

class pattern_runs {
 public:
  explicit pattern_runs(pattern_setup const& setup);
  ~pattern_runs();
  pattern_runs(pattern_runs const&) = delete;
  pattern_runs& operator=(pattern_runs const&) = delete;

  /// Forgets what rows of a round share. `check`: later rows compare their bytes with the file's.
  void begin_round(bool check);

  /// Throws device_error, std::system_error, or std::runtime_error when an access fails or gives
  /// wrong bytes.
  [[nodiscard]] pattern_outcome measure(pattern_row const& row);

 private:
  struct hot_arrays;

  [[nodiscard]] config settings_of(pattern_row const& row, std::uint64_t readers) const;
  [[nodiscard]] std::uint64_t bytes_of(pattern_row const& row) const;
  void count_touched(pattern_row const& row, access_plan const& plan, pattern_outcome& out);

  pattern_outcome read_pass(pattern_row const& row);
  pattern_outcome read_hits(pattern_row const& row);
  pattern_outcome time_latency(pattern_row const& row);
  pattern_outcome draw_floats(pattern_row const& row);
  pattern_outcome read_files(pattern_row const& row);
  pattern_outcome turn_ring(pattern_row const& row);
  pattern_outcome sum_hot(pattern_row const& row);
  pattern_outcome write_stream(pattern_row const& row);

  [[nodiscard]] double equivalent_of(pattern_row const& row, row_plan const& r);
  [[nodiscard]] std::uint64_t float_sum(access_plan const& plan) const;
  [[nodiscard]] pinned_buffer<std::byte> const& pinned();

  pattern_setup setup_;
  bool check_ = false;
  pinned_buffer<std::byte> pinned_;
  std::map<access_row, touched_bytes> touched_;
  std::unique_ptr<small_files> files_;
  std::unique_ptr<hot_arrays> hot_;
  std::optional<double> stream_rate_;       ///< of gpufs, in this round
  std::optional<std::uint64_t> float_sum_;  ///< of the elements that are drawn
};

}  // namespace gpufs::apps
