// Which runs of the analytics programs the figures of the BaM paper are made of.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace gpufs::apps {

/// A program beside this one, and what it is called with.
struct bam_run {
  std::string program;
  std::vector<std::string> arguments;
  std::string results = {};  ///< name of the file that gets its JSON lines; empty: there are none
};

struct bam_conditions {
  bool is_smoke, is_emulated;
  std::uint64_t runs;
  std::string folder;  ///< of graphs and columns
};

/// Numbers of the paper's figures, and `vectoradd`, its section 5.4.
[[nodiscard]] std::vector<std::string> bam_figures();

/// What the figures need. Figures that are made of the same runs have them once.
[[nodiscard]] std::vector<bam_run> runs_of(std::vector<std::string> const& figures,
                                           bam_conditions const& under);

}  // namespace gpufs::apps
