// `gpufs bench ratios`: compares gpufs with the limits of the hardware and with other ways. One
// process measures all of them, one after the other in each round.
#pragma once

#include <gpufs/config.hpp>
#include <gpufs/statistics.hpp>

#include <apps/bench/study.hpp>

#include <map>
#include <string>
#include <vector>

namespace gpufs::apps {

/// What is measured, in GB/s.
enum class rate {
  pull,         ///< a kernel reads pinned memory
  pull_one,     ///< the same with one block
  ahead,        ///< gpufs, 4 KiB pages with readahead
  pages_4k,     ///< 4 KiB pages, no readahead
  pages_64k,    ///< 64 KiB pages, no readahead
  original_4k,  ///< our model of GPUfs, 4 KiB pages
  original_64k,
  cpuio,      ///< hand-written: one thread, one copy
  pipelined,  ///< hand-written: the best of several pipelines
  one_block,  ///< 64 KiB pages with readahead, by one block alone, 1 MiB per gread
  over,       ///< as `ahead`, with a cache of a quarter of the file, LRA
  cold,       ///< as `ahead`, the OS page cache empty
  storage,    ///< io_uring with O_DIRECT
  // Random chunks, equally many for each row. The OS page cache is warm except for `random_cold`.
  random_4k,       ///< gread, 4 KiB pages, whole blocks
  random_4k_warp,  ///< the same, each warp its own
  random_zipf,     ///< as random_4k, by Zipf's law with 0.99
  random_512,      ///< gread, 512-byte pages and ranges, each warp its own
  random_cold,     ///< as random_4k, the OS page cache empty
  pull_4k,         ///< a kernel reads the same ranges out of pinned memory
  pull_zipf,
  pull_512,
  storage_random,  ///< io_uring with O_DIRECT, 4 KiB
  // Sums of u64 elements that are all in the cache. The page size is that of the settings.
  plain_stream,   ///< a plain kernel, the same bytes in a plain buffer
  array_stream,   ///< array, a[i]
  ptr_stream,     ///< held_ptr, a page per warp
  plain_lookups,  ///< random elements, the plain buffer
  array_lookups,  ///< random elements, a[i]
  // Random chunks as for random_512, one warp per chunk by array, 16 bytes per lane.
  array_512,     ///< 512-byte pages
  array_512_4k,  ///< 4 KiB pages
};

struct ratio_row {
  char const* set;  ///< sequential, random or array
  char const* key;
  char const* text;
  rate over;
  rate under;
  double target;          ///< must be reached; 0: for information
  double stretch_target;  ///< shall be reached
};

[[nodiscard]] std::vector<ratio_row> const& ratio_rows();

struct ratio_options : study_options {
  std::string set = "sequential";
  std::vector<std::string> only;  ///< keys, of any set; empty: all of `set`
  bool has_idle_mapping = false;
  bool json = false;
};

/// The results of a row. Each list has one entry per round.
struct ratio_result {
  ratio_row row;
  std::vector<double> over, under;  ///< GB/s
  std::vector<double> ratios;
  std::string missing;  ///< why there are none
};

struct ratios {
  std::string file;
  std::uint64_t bytes = 0;
  std::vector<ratio_result> rows;
  std::uint64_t wanted_bytes = 0;  ///< of all passes by gread
  statistics counters;             ///< the bytes that these passes read from the host
};

void add_options(CLI::App& command, ratio_options& o);

/// Measures. Throws usage_error, config_error, device_error, std::system_error, or
/// std::runtime_error when a read fails or gives wrong bytes.
[[nodiscard]] ratios measure_ratios(ratio_options const& o, config const& settings);

/// Prints the ratios, as a table or with --json as one object. Compares them with the targets only
/// on a GPU and for files of at least the size in the GPUfs readahead paper.
void print(ratio_options const& o, config const& settings, ratios const& r);

}  // namespace gpufs::apps
