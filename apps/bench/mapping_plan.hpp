// Which runs of gpufs-mapping the figures of the ADSM and DRAGON papers are made of.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace gpufs::apps {

/// A call of gpufs-mapping.
struct mapping_run {
  std::string results;                 ///< name of the file that gets its runs, without .jsonl
  std::vector<std::string> arguments;  ///< without those of all runs
};

struct mapping_conditions {
  bool is_smoke, is_emulated;
  std::uint64_t runs;
  std::string folder;  ///< of spilled bytes
};

/// adsm7 to adsm12, dragon3, dragon5, dragon6. The PNG and CSV have these names, too.
[[nodiscard]] std::vector<std::string> mapping_figures();

/// Figures that are made of the same runs have them once.
[[nodiscard]] std::vector<mapping_run> runs_of(std::vector<std::string> const& figures,
                                               mapping_conditions const& under);

}  // namespace gpufs::apps
