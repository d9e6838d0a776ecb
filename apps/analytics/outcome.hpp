// What the runs of a variant came to, and how programs report it.
#pragma once

#include <gpufs/config.hpp>
#include <gpufs/statistics.hpp>

#include <apps/analytics/run_options.hpp>
#include <apps/common/json_line.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gpufs::apps::analytics {

struct run_outcome {
  /// From before the first byte is read until the result is on the host, or durable in its file.
  double seconds = 0;
  double load_seconds = 0;         ///< of these, until the kernel began
  double registering_seconds = 0;  ///< before the time: io_path registered registers windows
  std::optional<statistics> counters;
  std::vector<std::string> notes;
};

/// The runs of one variant.
struct measured {
  variant how;
  std::vector<run_outcome> runs;
  std::string wrong;  ///< what the check found

  [[nodiscard]] run_outcome const& median_run() const;
};

/// What reports have in common.
struct report_heading {
  std::string_view program;
  std::uint64_t data_bytes;  ///< bytes of the files that the variants work on
  config const* settings;
};

/// Prints a variant as a JSON object, or as lines of text. `members`: what the program adds.
void print_outcome(run_options const& o, report_heading const& heading, measured const& m,
                   json_line const& members);

/// Prints what the check found, on stderr what is wrong. Returns the exit status.
int conclude(run_options const& o, std::string_view program, std::vector<measured> const& all,
             std::string_view checked);

}  // namespace gpufs::apps::analytics
