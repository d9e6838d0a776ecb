// The numbers of a chart and how they are measured. At each x every series is measured once per
// round, in several rounds.
#pragma once

#include <apps/common/progress.hpp>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace gpufs::apps {

/// One row of the CSV.
struct figure_row {
  std::string series;
  std::string kind;  ///< points, line (the same at every x), bars, table (not drawn)
  std::uint64_t x;   ///< bytes; line: 0
  double y;          ///< median of the runs
  std::string unit;  ///< GB/s, polls or requests
  double low, high;  ///< of the runs
};

struct figure_table {
  int number = 0;
  std::vector<figure_row> rows;
  std::vector<std::string> notes;  ///< what was measured otherwise than asked for, and why

  /// Adds the median of `values`, which must not be empty.
  void add(std::string series, std::string kind, std::uint64_t x, std::string unit,
           std::vector<double> const& values);
};

/// A line of a chart: what it is called, and one measurement of it.
struct figure_series {
  std::string name;
  std::function<double(std::uint64_t x)> measure;
};

/// How often, and who is told of it.
struct sweep_control {
  std::int64_t runs;
  progress& shown;                      ///< advances by 1 for each measurement
  std::function<void(bool)> first_run;  ///< told whether what follows is the first run of its place
};

/// Measures every series at every x; a run of one series is followed by one of the next.
void sweep(figure_table& to, std::vector<std::uint64_t> const& places,
           std::vector<figure_series> const& all, sweep_control const& how);

/// Measures what is the same along the whole axis.
void measure_lines(figure_table& to, std::vector<figure_series> const& all,
                   sweep_control const& how);

/// "figure,series,kind,x,y,unit,low,high" and a line for each row; text in quotation marks. Throws
/// std::system_error naming the path.
void write_csv(figure_table const& table, std::string const& path);

}  // namespace gpufs::apps
