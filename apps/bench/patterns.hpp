// `gpufs bench patterns`: any access pattern with default settings, each beside its hand-written
// equivalent in the same run.
#pragma once

#include <gpufs/config.hpp>

#include <apps/bench/pattern_rows.hpp>
#include <apps/common/program.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace gpufs::apps {

struct patterns_options {
  std::string file;  ///< empty: a temporary one in `folder`
  std::string folder;
  std::string tmpfs = "/dev/shm";
  std::string size = "0";         ///< of the largest row; 0: 8G, emulated 16M
  std::vector<std::string> only;  ///< keys; empty: all rows
  std::int64_t rounds = 5;
  std::int64_t blocks = not_given;   ///< 120, emulated 8
  std::int64_t threads = not_given;  ///< 512, emulated 64
  std::uint64_t seed = 1;
  bool no_verify = false;
  bool has_idle_mapping = false;
  std::string json;   ///< a file; empty: none
  std::string csv;    ///< the same
  std::string check;  ///< empty, or counters
  bool no_charts = false;
};

void add_options(CLI::App& command, patterns_options& o);

/// The results of a row. Each list has one entry per round.
struct pattern_result {
  pattern_row row;
  std::vector<double> rates;
  std::vector<double> equivalents;  ///< empty if there is none
  std::vector<double> ratios;       ///< times as fast as the equivalent
  std::uint64_t wanted = 0;
  touched_bytes touched;
  std::uint64_t host_bytes = 0;          ///< of the round with most of them
  std::optional<double> registering_ms;  ///< the same, warm-up included; nothing: none
  std::string failed;                    ///< why there are no more results

  [[nodiscard]] bool measured() const { return !rates.empty(); }
  /// What target and stretch target are about: the median of the ratios or of the rates.
  [[nodiscard]] std::optional<double> judged() const;
  /// The worst rate of a round.
  [[nodiscard]] double worst() const;
  /// Bytes from the host / bytes wanted, and / bytes of the touched 4 KiB pages; none for rows
  /// without bytes.
  [[nodiscard]] std::optional<double> per_wanted() const;
  [[nodiscard]] std::optional<double> per_touched() const;
  /// Whether `target`, the target or the stretch target, and the row's limit of host bytes are met.
  [[nodiscard]] bool meets(double target) const;
  /// How much of the stretch target is reached, 1: all of it.
  [[nodiscard]] std::optional<double> of_stretch_target() const;
};

struct patterns_result {
  std::string file;
  std::uint64_t largest = 0;
  bool compared = false;  ///< with the targets
  std::vector<pattern_result> rows;
};

/// Most bytes from the host / bytes of the touched 4 KiB pages, for --check counters.
inline constexpr double most_per_touched = 1.1;

/// Measures. A row that fails says so and does not end the run. Throws usage_error, config_error,
/// device_error, std::system_error.
[[nodiscard]] patterns_result measure_patterns(patterns_options& o, config const& settings);

/// Prints the table, and writes --json, --csv and the chart. Throws std::system_error.
void report(patterns_options const& o, config const& settings, patterns_result const& r);

/// Measures and reports. Returns the exit status: status_failed if a row failed, or does not hold
/// what --check asks for. Errors as above.
[[nodiscard]] int run_patterns(patterns_options& o, config const& settings);

}  // namespace gpufs::apps
