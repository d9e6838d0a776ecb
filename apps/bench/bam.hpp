// `gpufs bench bam`: the figures of the BaM paper, by runs of the analytics programs.
#pragma once

#include <apps/common/program.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace gpufs::apps {

struct bam_options {
  std::vector<std::string> figures;  ///< "6", ... or "all"
  std::string out;
  std::string folder = "/tmp";
  std::string size;               ///< smoke or paper; empty: paper, emulated smoke
  std::int64_t runs = not_given;  ///< 3, of size smoke 1
};

void add_options(CLI::App& command, bam_options& o);

/// Runs the programs, which lie beside this one, in processes of their own. Writes their JSON lines
/// to --out/NAME.jsonl, and each figure as CSV and PNG. A run that fails does not keep the others
/// from running, but an older file of its name stays. Returns the exit status. Throws usage_error,
/// device_error, and std::system_error if a folder cannot be made.
[[nodiscard]] int run_bam(bam_options o);

}  // namespace gpufs::apps
