// `gpufs bench paper`: measures the figures of the GPUfs readahead paper and writes each as CSV
// and, where python3-matplotlib is installed, as PNG.
#pragma once

#include <gpufs/config.hpp>

#include <apps/bench/study.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace gpufs::apps {

struct paper_options : study_options {
  std::vector<std::string> figures;  ///< "2", ... or "all"
  std::string out;
  std::string ram_folder = "/dev/shm";
  std::optional<double> scale;    ///< of the paper's file sizes; not given: 1, emulated 0.01
  std::int64_t step = not_given;  ///< 2, emulated 4
  bool cold = false;
  bool no_charts = false;
};

void add_options(CLI::App& command, paper_options& o);

/// Fills in what was not given. Throws usage_error, device_error.
void complete(paper_options& o);

/// Measures the figures one after the other. Writes --out/figure_N.csv, figure_N.png and
/// figure_N.json, which says what was measured. Errors as measure_ratios(), and std::system_error
/// if a file cannot be written.
void run_paper(paper_options const& o, config const& settings);

}  // namespace gpufs::apps
