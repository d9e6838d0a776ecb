// `gpufs bench mapping`: the figures of the ADSM and DRAGON papers, by runs of gpufs-mapping.
#pragma once

#include <apps/common/program.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace gpufs::apps {

struct mapping_figures_options {
  std::vector<std::string> figures;  ///< "adsm7", ... or "all"
  std::string out;
  std::string folder = "/tmp";
  std::string size;               ///< smoke or paper; empty: paper, emulated smoke
  std::int64_t runs = not_given;  ///< 5, of size smoke 1
};

void add_options(CLI::App& command, mapping_figures_options& o);

/// Runs gpufs-mapping, which lies beside this program, in processes of its own. Writes each run as
/// a JSON object to --out/NAME.jsonl, and each figure as CSV and PNG. A run that fails does not
/// keep the others from running, but an older file of its name stays. Returns the exit status.
/// Throws usage_error, device_error, and std::system_error if the folder cannot be made.
[[nodiscard]] int run_mapping_figures(mapping_figures_options o);

}  // namespace gpufs::apps
