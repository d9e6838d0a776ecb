// The figures of the GPUfs readahead paper, measured with gpufs and with our model of GPUfs, beside
// the limits of the same run.
#pragma once

#include <apps/bench/figure_table.hpp>
#include <apps/bench/study.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace gpufs::apps {

/// What a figure is made with.
struct figure_setup {
  study& all;
  /// as in the paper: the file is dropped from the OS page cache before each measurement
  bool cold = false;
  std::uint64_t step = 2;  ///< factor from one size along the axis to the next
  std::int64_t runs = 3;
  progress& shown;

  [[nodiscard]] sweep_control control() const;
  /// Sizes from 4 KiB to 4 MiB of which each block's part holds at least one.
  [[nodiscard]] std::vector<std::uint64_t> sizes() const;
  /// What the study does before each pass.
  [[nodiscard]] std::function<void()> preparation() const;
};

/// Page sizes: 2; the file is where `all` has it, for 7 on tmpfs.
void measure_page_sizes(figure_table& to, figure_setup const& s);

/// Figure 3: requests that are answered, but whose bytes stay on the host.
void measure_requests(figure_table& to, figure_setup const& s);

/// Figure 5: the reads of the host threads in these runs, done again without a device.
void measure_replay(figure_table& to, figure_setup const& s);

/// Figure 6: how often each host thread looks for work before its first request.
void measure_idle_polls(figure_table& to, figure_setup const& s);

/// Figure 9: readahead with 4 KiB pages, beside larger pages without.
void measure_readahead(figure_table& to, figure_setup const& s);

/// Figure 10: a file of twice the cache, under each replacement.
void measure_replacement(figure_table& to, figure_setup const& s);

/// Adds the limits of the device and the rates of hand-written code for the same bytes, as lines.
/// `storage`: also the limit of the storage, if cold.
void measure_limit_lines(figure_table& to, figure_setup const& s);

}  // namespace gpufs::apps
