// The measurements of `gpufs bench apps` as CSV. Geometric means, a table and the four figures.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gpufs::apps {

/// One run.
struct app_run {
  std::string app;
  std::string variant;  ///< see apps_study.cpp
  std::uint64_t bytes = 0;
  double io_seconds = 0;
  double seconds = 0;
};

/// Writes a line "# CONDITIONS" unless they are empty, "app,variant,bytes,io_seconds,seconds", and
/// a line for each run. The file appears complete or not at all. Throws std::system_error naming
/// it.
void write_runs(std::vector<app_run> const& runs, std::string const& path,
                std::string const& conditions = {});

/// Reads back the runs of application `app`. Throws usage_error naming path and line if the file is
/// incomplete or belongs to another application.
[[nodiscard]] std::vector<app_run> read_runs(std::string const& path, std::string_view app);

/// The conditions that write_runs() was given; empty if there are none.
[[nodiscard]] std::string read_conditions(std::string const& path);

/// How conditions "key=value; key=value" differ from those that hold `now`, in words; empty if they
/// do not.
[[nodiscard]] std::string difference(std::string const& there, std::string const& now);

/// The median over the runs of an application's variant: bytes / I/O time in GB/s, or the whole
/// time in seconds.
[[nodiscard]] std::optional<double> median_io_GBps(std::vector<app_run> const& runs,
                                                   std::string const& app,
                                                   std::string const& variant);
[[nodiscard]] std::optional<double> median_seconds(std::vector<app_run> const& runs,
                                                   std::string const& app,
                                                   std::string const& variant);

/// A ratio: the I/O bandwidth of variant `of` by that of `by`. With `end_to_end`: the time of `by`
/// by that of `of`. The geometric mean over the applications that have both counts.
struct app_ratio {
  char const* text;
  char const* of;
  char const* by;
  bool end_to_end;
  std::optional<double> target;
  std::optional<double> stretch_target;
};
[[nodiscard]] std::vector<app_ratio> const& app_ratios();
[[nodiscard]] std::optional<double> geometric_mean(std::vector<app_run> const& runs,
                                                   app_ratio const& ratio);

/// Markdown: the ratios with targets and stretch targets, then every application's I/O bandwidth
/// and time in every variant. `why_not_compared`: if not empty, stands in place of targets, stretch
/// targets and verdicts.
[[nodiscard]] std::string to_markdown(std::vector<app_run> const& runs,
                                      std::string_view why_not_compared);

/// The rows "figure,app,series,value,unit" of a figure (11 to 14), with the geometric mean as the
/// last application; empty if nothing of it was measured.
[[nodiscard]] std::string figure_csv(std::vector<app_run> const& runs, int figure);

}  // namespace gpufs::apps
