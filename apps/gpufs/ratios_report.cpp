// Prints the ratios: as one JSON object, or as a table.
#include <apps/common/json_line.hpp>
#include <apps/common/median.hpp>
#include <apps/common/run_report.hpp>
#include <apps/gpufs/ratios.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace gpufs::apps {

namespace {

char const* verdict(ratio_result const& r) {
  if (r.ratios.empty()) return "not measured";
  if (r.row.bar == 0) return "";
  double const got = median(r.ratios);
  return got >= r.row.goal ? "goal reached" : got >= r.row.bar ? "reached" : "NOT REACHED";
}

std::string wanted(double value) { return value == 0 ? "-" : fmt::format("{:.2f}", value); }

void print_json(ratio_options const& o, config const& settings, ratios const& r) {
  json_line j;
  add_heading(j, "ratios");
  json_line rows;
  for (auto const& row : r.rows) {
    json_line one;
    one.text("what", row.row.text);
    bool const any = !row.ratios.empty();
    one.number("ratio", any ? std::optional(median(row.ratios)) : std::nullopt);
    if (row.row.bar != 0) {
      one.number("bar", row.row.bar).number("goal", row.row.goal);
      one.boolean("bar_reached", any && median(row.ratios) >= row.row.bar);
      one.boolean("goal_reached", any && median(row.ratios) >= row.row.goal);
    }
    if (any) one.number("GBps", median(row.over)).number("against_GBps", median(row.under));
    one.numbers("ratios", row.ratios)
        .numbers("GBps_runs", row.over)
        .numbers("against_GBps_runs", row.under);
    if (!row.missing.empty()) one.text("missing", row.missing);
    rows.object(row.row.key, one);
  }
  j.object("rows", rows);
  j.text("file", r.file)
      .integer("bytes", r.bytes)
      .integer("runs", static_cast<std::uint64_t>(o.runs));
  j.integer("blocks", static_cast<std::uint64_t>(o.blocks))
      .integer("threads", static_cast<std::uint64_t>(o.threads));
  j.text("req", o.request)
      .integer("baseline_threads", static_cast<std::uint64_t>(o.baseline_threads));
  j.boolean("verified", !o.no_verify);
  add_settings(j, settings);
  fmt::print("{}\n", j.str());
}

}  // namespace

void print(ratio_options const& o, config const& settings, ratios const& r) {
  if (o.json) return print_json(o, settings, r);
  fmt::print(
      "gpufs bench ratios on {}: {} blocks x {} threads, {} bytes of {}, median of {} rounds{}\n",
      current_device().name, o.blocks, o.threads, r.bytes, r.file, o.runs,
      o.no_verify ? "" : ", bytes equal pread's");
  std::size_t width = 50;
  for (auto const& row : r.rows) width = std::max(width, std::string_view(row.row.text).size());
  fmt::print("settings: {}\n\n  {:<{}} {:>8} {:>8} {:>6} {:>6}  {:<13} {}\n",
             changed_settings(settings), "", width, "measured", "from", "bar", "goal", "", "GB/s");
  for (auto const& row : r.rows) {
    fmt::print("  {:<{}} ", row.row.text, width);
    if (row.ratios.empty()) {
      fmt::print("not measured: {}\n", row.missing);
      continue;
    }
    fmt::print("{:>8.3f} {:>8.3f} {:>6} {:>6}  {:<13} {:.3f} / {:.3f}\n", median(row.ratios),
               std::ranges::min(row.ratios), wanted(row.row.bar), wanted(row.row.goal),
               verdict(row), median(row.over), median(row.under));
  }
}

}  // namespace gpufs::apps
