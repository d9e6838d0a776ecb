// `gpufs bench write`: a kernel writes a new file. The same run measures host threads that write
// one from pinned memory.
#pragma once

#include <gpufs/config.hpp>
#include <gpufs/statistics.hpp>

#include <apps/bench/kernels.hpp>
#include <apps/bench/options.hpp>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

namespace gpufs::apps {

/// The order of the ranges: range i * factor modulo `ranges` is written as number i, so each range
/// is written once. A range is generate(seed, 0), generate(seed, 1), ... with its own number in
/// place of the first word.
struct write_plan {
  std::uint64_t ranges = 0;
  std::uint64_t range_bytes = 0;  ///< a multiple of 8
  std::uint64_t factor = 1;       ///< coprime to `ranges`
  std::uint64_t seed = 0;

  [[nodiscard]] constexpr std::uint64_t range(std::uint64_t i) const {
    return static_cast<std::uint64_t>(static_cast<unsigned __int128>(i) * factor % ranges);
  }
  [[nodiscard]] constexpr std::uint64_t bytes() const { return ranges * range_bytes; }
};

/// The same file in requests of `bytes`, of which the last may be shorter.
struct request_order {
  write_plan order;
  std::uint64_t file_bytes = 0;

  constexpr request_order(write_plan const& plan, std::uint64_t bytes)
      : order(plan), file_bytes(plan.bytes()) {
    order.range_bytes = bytes;
    order.ranges = (file_bytes + bytes - 1) / bytes;
    while (std::gcd(order.factor, order.ranges) != 1) ++order.factor;
  }
  [[nodiscard]] constexpr std::uint64_t bytes_of(std::uint64_t range) const {
    return std::min(order.range_bytes, file_bytes - range * order.range_bytes);
  }
};

struct write_result {
  write_plan plan;
  std::vector<double> seconds;       ///< of each run: kernel, fs.sync
  std::vector<double> host_seconds;  ///< of each run of the host threads: pwrite, fdatasync
  std::uint64_t host_request = 0;    ///< bytes per pwrite of the best of them
  std::size_t median = 0;
  statistics counters;  ///< of that run
  bool verified = false;
  std::string mismatch;
  std::string backend;
  std::vector<std::string> notes;
};

/// Throws usage_error, device_error, std::system_error, or std::runtime_error when a gwrite fails.
[[nodiscard]] write_result run_write_bench(bench_options const& o, config const& settings);
void print(bench_options const& o, config const& settings, write_result const& r);

/// Kernels that write and read back by a plan. Block i modulo blocks handles number i of the
/// sequence.
class file_writer {
 public:
  file_writer(write_plan const& plan, bench_shape shape);
  ~file_writer();
  file_writer(file_writer const&) = delete;
  file_writer& operator=(file_writer const&) = delete;

  /// Writes all chunks and waits for the kernel. Returns 0, or the result of a gwrite that did not
  /// write its whole chunk.
  std::int64_t write(fs_ref const& fs, int fd);
  /// Reads and compares all chunks. Returns how many differ or could not be read.
  std::uint64_t read_back(fs_ref const& fs, int fd);

 private:
  struct state;
  std::unique_ptr<state> state_;
};

}  // namespace gpufs::apps
