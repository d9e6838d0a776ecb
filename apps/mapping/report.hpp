// What gpufs-mapping prints.
#pragma once

#include <apps/mapping/options.hpp>
#include <apps/mapping/runs.hpp>
#include <apps/mapping/workload.hpp>

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace gpufs::apps::workloads {

/// Prints runs as they come, and medians at the end. Ratios are those of the runs of one round.
class report {
 public:
  report(options const& o, description const& d, setup const& of, std::vector<way> ways);

  /// A run in ways[w]. JSON of runs before the variant hand waits for that of the same round.
  void add(std::size_t w, measured const& m);

  /// Prints the medians, unless as JSON. Returns the program's exit status.
  int finish();

 private:
  [[nodiscard]] std::optional<double> ratio_to_hand(std::size_t w, std::size_t round) const;
  [[nodiscard]] std::string json_of(std::size_t w, measured const& m) const;
  void print_text(std::size_t w, measured const& m) const;
  void print_json();

  options const& options_;
  description const& description_;
  setup const& setup_;
  std::vector<way> ways_;
  std::vector<std::vector<measured>> runs_;  // of each way
  std::vector<std::size_t> waiting_;         // ways whose last run is not in JSON yet
  bool has_failed_ = false;
};

}  // namespace gpufs::apps::workloads
