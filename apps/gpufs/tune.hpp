// `gpufs tune FILE`: finds the settings with which a file is read fastest on this machine, and
// writes them down.
#pragma once

#include <gpufs/config.hpp>

#include <apps/gpufs/tune_output.hpp>
#include <apps/gpufs/tune_search.hpp>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
}

namespace gpufs::apps {

struct tune_options {
  std::string file;
  std::string time = "60s";
  std::string pattern = "seq";
  std::string request = "64K";
  std::int64_t blocks = INT64_MIN;  ///< INT64_MIN: as gpufs bench does
  std::int64_t threads = INT64_MIN;
  bool cold = false;
  tune_output output;
};

/// Adds the options to the subcommand.
void add_options(CLI::App& command, tune_options& o);

struct tune_result {
  search_result found;
  std::uint64_t file_bytes = 0;
  std::uint64_t bytes = 0;  ///< that each trial read
  std::uint64_t verified_requests = 0;
  double seconds = 0;  ///< that all of it took
};

/// Searches, verifies the bytes that the best settings give against pread, prints a table and
/// writes `o.output`, unless gpufs has these settings already. Never writes to the file.
/// `fixed(key)`: the setting keeps the value it has in `start`. Returns the program's exit status.
/// Throws usage_error (the file cannot be read or is empty, --out exists or is the file itself,
/// an option is out of range), device_error, std::system_error, or std::runtime_error (the settings
/// given do not work, or bytes were wrong).
int run_tune(tune_options const& o, config const& start,
             std::function<bool(std::string_view)> const& fixed);

void print(tune_options const& o, tune_result const& r);

/// The settings that are tried, in their order.
[[nodiscard]] tuned_keys const& keys_tuned();

/// The best settings as the text of a TOML file that load_file() reads.
[[nodiscard]] tuned_text to_toml(tune_options const& o, tune_result const& r);

}  // namespace gpufs::apps
