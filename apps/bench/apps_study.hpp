// `gpufs bench apps`: the file-input applications in the variants of the GPUfs readahead paper,
// Figures 11 to 14. The variants of a round run one after the other.
#pragma once

#include <gpufs/config.hpp>

#include <apps/common/program.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace gpufs::apps {

struct apps_options {
  std::string size = "smoke";
  std::string out;
  std::string folder;                 ///< where the input files are kept; empty: nameless ones
  std::vector<std::string> only;      ///< empty: all
  std::vector<std::string> variants;  ///< empty: all of `full`
  std::int64_t runs = 3;
  std::int64_t threads = not_given;  ///< 512, emulated 64
  bool full = false;
  bool again = false;
  bool no_verify = false;
  bool no_charts = false;
};

void add_options(CLI::App& command, apps_options& o);

/// Measures application by application the variants that have fewer than --runs runs in
/// --out/NAME-SIZE.csv, and writes that file. Then writes the summary of all results.
/// Returns the exit status: status_failed if an application could not be measured or its results
/// were wrong. The others are measured anyway.
/// Throws usage_error before anything is measured, also for results that are damaged or of other
/// conditions; device_error, std::system_error.
int study_apps(apps_options o, config const& settings);

}  // namespace gpufs::apps
