// `gpufs bench`: what a run measured, and how it is reported.
#pragma once

#include <gpufs/config.hpp>
#include <gpufs/statistics.hpp>

#include <apps/bench/options.hpp>
#include <apps/common/yardsticks.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace gpufs::apps {

struct bench_result {
  std::string file;
  std::uint64_t file_bytes = 0;
  access_plan plan;
  std::vector<std::uint32_t> drawn;  ///< what plan.drawn points to
  std::uint64_t repeat = 1;          ///< times the plan was run in one kernel
  std::vector<double> seconds;       ///< of each run
  std::size_t median = 0;            ///< which of them counts
  statistics counters;               ///< of that run
  /// cold: the largest part of the file that the OS page cache still held before a run
  std::optional<double> cached_before;
  bool verified = false;
  std::uint64_t checked = 0;  ///< requests compared with pread
  std::string mismatch;       ///< if they were found to differ: where
  std::string backend;
  std::vector<std::string> notes;
  yardsticks measured;

  [[nodiscard]] std::uint64_t bytes() const { return plan.payload() * repeat; }
};

struct rpc_result {
  double round_trip_us = 0;      ///< one block: median
  double round_trip_all_us = 0;  ///< all blocks at once: median of one round trip
  double rate = 0;               ///< all blocks at once: round trips per second
  double seconds = 0;            ///< one block: of the whole kernel
  statistics counters;
  std::uint64_t rounds = 0;  ///< of one block
  std::string backend;
  std::vector<std::string> notes;
};

/// Runs seq, strided, rand or hit. Throws usage_error, device_error, std::system_error, or
/// std::runtime_error when a gread fails.
[[nodiscard]] bench_result run_bench(bench_options const& o, config const& settings);

/// Runs rpc. Throws device_error, or std::runtime_error when a round trip fails.
[[nodiscard]] rpc_result run_rpc_bench(bench_options const& o, config const& settings);

void print(bench_options const& o, config const& settings, bench_result const& r);
void print(bench_options const& o, config const& settings, rpc_result const& r);

}  // namespace gpufs::apps
