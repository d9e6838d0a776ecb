// The rows of `gpufs bench patterns`: what each reads or writes, what it is held against, and which
// figures it must reach.
#pragma once

#include <apps/bench/access_plan.hpp>
#include <apps/bench/kernels.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace gpufs::apps {

enum class access_row {
  stream,
  columns,
  pieces,
  pages,
  records,
  random,
  zipf,
  random_blocks,
  floats,
  files,
  latency,
  hit_latency,
  ring,
  one_block,
  hot_stream,
  hot_random,
  write,
  write_tmpfs,
  hits,
};

/// What a row's target and stretch target are about: the ratio to the equivalent, or the rate
/// itself.
enum class target_of { ratio, rate };

/// A target or stretch target for a table. A dash: there is none (0), or nothing is compared with
/// it.
[[nodiscard]] std::string target_cell(bool compared, target_of about, double target);

/// What the bytes read from the host are limited by: nothing, the bytes that were asked for, or the
/// 4 KiB pages that were touched.
enum class host_limit { none, wanted, touched };

struct pattern_row {
  access_row row;
  char const* key;
  char const* text;
  char const* equivalent;  ///< empty: there is none
  char const* unit;        ///< GB/s, M/s, k/s or us; us: less is better
  target_of about;
  double target;          ///< must be reached
  double stretch_target;  ///< shall be reached
  host_limit limited;
  double limit;         ///< most bytes from the host / bytes of `limited`
  std::uint64_t bytes;  ///< of the file, with the default size on a GPU

  [[nodiscard]] bool less_is_better() const { return std::string_view(unit) == "us"; }
};

/// The size of the largest row, which the sizes of all rows are in proportion to.
inline constexpr std::uint64_t largest_row_bytes = 8ull << 30;

[[nodiscard]] std::vector<pattern_row> const& pattern_rows();

/// Bytes of the file that a row takes part in if the largest row has `largest`: whole MiB.
[[nodiscard]] std::uint64_t scaled_bytes(pattern_row const& row, std::uint64_t largest);

/// The shape and the requests of a row that reads the file by gread.
struct row_plan {
  access_plan plan;
  bench_shape shape;
  std::vector<std::uint32_t> drawn;  ///< what plan.drawn points to

  row_plan() = default;
  row_plan(row_plan&&) = default;
  row_plan& operator=(row_plan&&) = default;
};

/// `shape` is that of whole blocks. Of latency and hit_latency: requests as far apart as possible.
/// Throws std::logic_error for a row that does not read by gread.
[[nodiscard]] row_plan plan_of(access_row row, std::uint64_t bytes, bench_shape shape,
                               std::uint64_t seed);

/// Bytes of the 4 KiB pages that are touched.
struct touched_bytes {
  std::uint64_t pages = 0;  ///< each page once
  std::uint64_t asked = 0;  ///< each page as often as a request touches it
};
[[nodiscard]] touched_bytes touched_by(access_plan const& plan);

}  // namespace gpufs::apps
