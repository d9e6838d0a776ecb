// What a trace comes to: how often each byte was read, rates, sizes, times, errors.
#pragma once

#include <gpufs/host_times.hpp>

#include <apps/gpufs/trace_lines.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace gpufs::apps {

/// How often the bytes of a file were read: for each number of times, the bytes that were read so
/// often. Bytes that were never read are left out.
using read_counts = std::map<std::uint64_t, std::uint64_t>;

/// [offset, offset + bytes) of each read, in any order. It is sorted.
[[nodiscard]] read_counts count_reads(
    std::vector<std::pair<std::uint64_t, std::uint64_t>> const& reads);

struct file_sums {
  std::string name;
  std::uint64_t opens = 0, reads = 0, writes = 0, syncs = 0, maps = 0, errors = 0;
  std::uint64_t bytes_read = 0, bytes_written = 0;
  read_counts counts;

  /// The different bytes that were read.
  [[nodiscard]] std::uint64_t distinct_bytes() const;
  /// How often the average one of them was read, and the one that was read most often. 0: none was.
  [[nodiscard]] double mean_reads() const;
  [[nodiscard]] std::uint64_t most_reads() const;
};

/// Requests of one kind, or of one kind and path.
struct request_sums {
  std::uint64_t requests = 0, bytes = 0;
};

struct error_sums {
  std::uint64_t requests = 0;
  std::uint64_t first_line = 0;
};

struct trace_sums {
  std::vector<file_sums> files;  ///< those with most bytes first
  std::map<std::pair<std::string, std::string>, request_sums> paths;  ///< by op and path
  std::map<std::string, time_histogram> times;                        ///< by op
  /// by op: for each power of two, the requests whose length is from it on to the next one
  std::map<std::string, std::map<std::uint64_t, std::uint64_t>> sizes;
  std::map<std::pair<std::string, int>, error_sums> errors;  ///< by op and errno
  std::vector<traced_request> slowest;                       ///< slowest first
  double seconds = 0;  ///< from the begin of the first request to the end of the last one
  std::uint64_t bytes_read = 0, bytes_written = 0;
  double most_read_per_second = 0;  ///< bytes that ended in the busiest hundredth of the time
};

/// `slowest`: how many of the slowest requests are kept.
[[nodiscard]] trace_sums sum_up(trace_lines const& trace, std::size_t slowest);

}  // namespace gpufs::apps
