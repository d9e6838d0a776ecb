// The taxi queries of the BaM paper (section 5.3): sums over the trips of at least 30 miles. Few
// rows are such trips, so most bytes of all columns but the first are not needed.
#pragma once

#include <gpufs/config.hpp>

#include <apps/analytics/outcome.hpp>
#include <apps/analytics/run_options.hpp>
#include <apps/analytics/taxi/columns.hpp>
#include <apps/harness/data_set.hpp>

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace gpufs::apps::analytics {

inline constexpr unsigned most_queries = column_count;

/// The result of a query. Qk has the sums of the first k + 1 columns; the others are 0.
struct taxi_result {
  std::uint64_t trips = 0;
  std::array<std::int64_t, column_count> sums{};
  /// Q5 with means: the sum over the trips of earnings by mile, each rounded down, times 2^20.
  std::int64_t ratios = 0;

  [[nodiscard]] bool operator==(taxi_result const&) const = default;
};

/// What all variants work on.
struct taxi_setup {
  data_set const* data;  ///< of taxi_files()
  std::uint64_t rows;
  bool with_means;  ///< Q5 also sums the trips' ratios
  launch_shape shape;
  std::uint64_t stride;  ///< of pages of the first column, see strided.hpp
  config settings;
  bool is_warm;  ///< the OS page cache has the files: windows are registered before a run
  drive_set drives = {};
};

/// One variant, with the memory that it needs.
class taxi_query {
 public:
  virtual ~taxi_query() = default;

  /// Throws std::system_error or std::runtime_error naming the file, or device_error.
  [[nodiscard]] virtual run_outcome run(taxi_result& to) = 0;
};

/// Query number `query`. Throws device_error, usage_error for managed on the emulated device. `s`
/// outlives the result.
[[nodiscard]] std::unique_ptr<taxi_query> make_taxi_query(variant how, unsigned query,
                                                          taxi_setup const& s);

/// The host's result, by all cores from the files. Throws std::system_error.
[[nodiscard]] taxi_result query_on_host(unsigned query, taxi_setup const& s);

/// What a driver earns: total less surcharge, fee, tolls and tax.
[[nodiscard]] constexpr std::int64_t earnings(std::int64_t total, std::int64_t surcharge,
                                              std::int64_t fee, std::int64_t tolls,
                                              std::int64_t tax) {
  return total - surcharge - fee - tolls - tax;
}

/// Earnings of a trip by its distance, times 2^20, rounded down. `distance` is not 0.
[[nodiscard]] constexpr std::int64_t ratio_of(std::int64_t earned, std::int64_t distance) {
  std::int64_t const scaled = earned * (std::int64_t{1} << 20);
  return scaled / distance - (scaled % distance < 0 ? 1 : 0);
}

/// "trips 30, distance 12.30", and of Q5 the earnings per mile.
[[nodiscard]] std::string text_of(taxi_result const& r, unsigned query, bool with_means);

}  // namespace gpufs::apps::analytics
