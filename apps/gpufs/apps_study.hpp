// `gpufs bench apps`: the file-input applications in the variants of paper 001, Figures 11 to 14,
// measured in turns.
#pragma once

#include <gpufs/config.hpp>

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
  std::int64_t threads = 0;  ///< 0: 512, emulated 64
  bool full = false;
  bool again = false;
  bool no_verify = false;
  bool no_charts = false;
};

void add_options(CLI::App& command, apps_options& o);

/// Measures those variants that --out/NAME-SIZE.csv has fewer than --runs runs of, application by
/// application, and writes that; then the summary of all that is there. Returns the exit status:
/// status_failed if an application could not be measured or its results were wrong (the others
/// are). Throws usage_error, also of results that are damaged, before anything is measured;
/// device_error, std::system_error.
int study_apps(apps_options const& o, config const& settings);

}  // namespace gpufs::apps
