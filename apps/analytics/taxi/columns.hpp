// The columns of the taxi queries, and their generator.
#pragma once

#include <apps/harness/input_file.hpp>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace gpufs::apps::analytics {

/// Columns that queries read, in the order in which Q0 to Q5 take them. Values are hundredths of a
/// mile or of a dollar.
inline constexpr unsigned column_count = 6;
inline constexpr std::array<char const*, column_count> column_names = {
    "distance", "total", "surcharge", "hail_fee", "tolls", "tax"};

/// Trips of so many hundredths of a mile and more are asked for.
inline constexpr std::int64_t long_trip = 3000;

/// How the long trips, 3 of 10,000 rows, lie in the file.
/// scattered  Each row by itself.
/// runs       In runs of 64 neighbouring rows.
/// mixed      At a rate of 0, 1 or 4 times that for each 4096 rows; half of these have none.
enum class clustering { scattered, runs, mixed };

/// Rows of generated trips. Each depends on its number and the seed alone.
class taxi_rows {
 public:
  taxi_rows(std::uint64_t seed, clustering how) : seed_(seed), how_(how) {}

  [[nodiscard]] bool is_long(std::uint64_t row) const;
  [[nodiscard]] std::int64_t distance(std::uint64_t row) const;
  [[nodiscard]] std::int64_t value(unsigned column, std::uint64_t row) const;

 private:
  std::uint64_t seed_;
  clustering how_;
};

/// Files NAME.i64, a number of 8 bytes for each row.
[[nodiscard]] std::vector<input_file> taxi_files(std::uint64_t rows, std::uint64_t seed,
                                                 clustering how);

[[nodiscard]] clustering clustering_named(std::string_view name);

}  // namespace gpufs::apps::analytics
