// `gpufs bench nvme`: queue pairs that kernels drive, each figure beside its limit or counterpart
// in the same run.
#pragma once

#include <gpufs/config.hpp>

#include <apps/bench/nvme_runs.hpp>
#include <apps/common/program.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace gpufs::apps {

struct nvme_bench_options {
  std::string folder;
  std::string size = "0";         ///< of the namespaces with data; 0: 1G, emulated 2M
  std::vector<std::string> only;  ///< keys; empty: all rows
  std::int64_t runs = 5;
  std::int64_t blocks = not_given;              ///< 120, emulated 4
  std::int64_t threads = not_given;             ///< 512, emulated 64
  std::int64_t controller_threads = not_given;  ///< 8, emulated 2
  std::int64_t pairs = not_given;               ///< 32, emulated 4
  std::int64_t depth = not_given;               ///< 4096, emulated 64
  std::uint64_t seed = 1;
  bool no_verify = false;
  std::string json;  ///< a file; empty: none
};

void add_options(CLI::App& command, nvme_bench_options& o);

/// The results of a row. Each list has one entry per round.
struct nvme_result {
  nvme_row row;
  std::vector<double> rates;
  std::vector<double> counterparts;  ///< empty if there is none
  std::vector<double> ratios;
  std::vector<std::string> point_names;
  std::vector<std::vector<double>> points;  ///< of each name
  std::uint64_t commands = 0;               ///< of kernels, of all rounds
  std::uint64_t doorbells = 0;              ///< the same, of submission queues
  std::uint64_t head_doorbells = 0;
  std::uint64_t missed_pages = 0;
  std::string failed;  ///< why there are no more results

  [[nodiscard]] bool measured() const { return !rates.empty(); }
  /// What target and stretch target are about, and its lowest of a round.
  [[nodiscard]] std::vector<double> const& judged() const {
    return row.about == target_of::ratio ? ratios : rates;
  }
};

struct nvme_results {
  bool compared = false;  ///< with the targets
  std::uint64_t bytes = 0;
  std::vector<nvme_result> rows;
};

/// Measures and reports. Returns the exit status: status_failed if a row failed; the others are
/// measured. Throws usage_error, config_error, device_error, std::system_error.
[[nodiscard]] int run_nvme_bench(nvme_bench_options& o, config const& settings);

/// Prints the table, and writes --json. Throws std::system_error.
void report(nvme_bench_options const& o, config const& settings, nvme_results const& all);

}  // namespace gpufs::apps
