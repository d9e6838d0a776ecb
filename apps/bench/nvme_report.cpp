// Reports `gpufs bench nvme`: a table on stdout, and one JSON object.
#include <apps/bench/nvme.hpp>
#include <apps/common/json_line.hpp>
#include <apps/common/median.hpp>
#include <apps/common/run_report.hpp>
#include <apps/common/unfinished_file.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

namespace gpufs::apps {

namespace {

std::optional<double> median_of(std::vector<double> const& values) {
  return values.empty() ? std::nullopt : std::optional(median(values));
}

std::string cell(std::optional<double> value) {
  return value ? fmt::format("{:.3f}", *value) : "-";
}

bool reaches(nvme_result const& r, double target) {
  return !r.judged().empty() && median(r.judged()) >= target;
}

char const* verdict(nvme_result const& r) {
  if (r.row.stretch_target != 0 && reaches(r, r.row.stretch_target)) return "stretch reached";
  return reaches(r, r.row.target) ? "reached" : "NOT REACHED";
}

std::string lowest(nvme_result const& r) {
  return r.judged().empty() ? "-" : cell(std::ranges::min(r.judged()));
}

void print_table(nvme_bench_options const& o, config const& settings, nvme_results const& all) {
  fmt::print(
      "gpufs bench nvme on {}: {} blocks x {} threads, {} queue pairs of {}, {} controller "
      "threads, namespaces of {}, median of {} rounds\n",
      current_device().name, o.blocks, o.threads, o.pairs, o.depth, o.controller_threads,
      format_size(all.bytes), o.runs);
  if (!all.compared)
    fmt::print("emulated device: correctness only, its rates say nothing of a GPU\n");
  std::size_t width = 0;
  for (auto const& r : all.rows) width = std::max(width, std::string_view(r.row.text).size());
  fmt::print(
      "settings: {}\n\n  {:<10} {:<{}} {:>9} {:>4} {:>11} {:>8} {:>8} {:>6} {:>6}  {:<12} {}\n",
      changed_settings(settings), "", "", width, "rate", "", "counterpart", "ratio", "lowest",
      "target", "stretch", "", "counterpart");
  for (auto const& r : all.rows) {
    fmt::print("  {:<10} {:<{}} ", r.row.key, r.row.text, width);
    if (!r.measured()) {
      fmt::print("FAILED: {}\n", r.failed);
      continue;
    }
    fmt::print("{:>9} {:>4} {:>11} {:>8} {:>8} {:>6} {:>6}  {:<12} {}{}\n", cell(median(r.rates)),
               r.row.unit, cell(median_of(r.counterparts)), cell(median_of(r.ratios)), lowest(r),
               target_cell(all.compared, r.row.about, r.row.target),
               target_cell(all.compared, r.row.about, r.row.stretch_target),
               all.compared ? verdict(r) : "", r.row.counterpart,
               r.row.modelled ? " (modelled)" : "");
    for (std::size_t i = 0; i < r.points.size(); ++i)
      fmt::print("    {}: {}\n", r.point_names[i], cell(median(r.points[i])));
    if (!r.failed.empty()) fmt::print("    FAILED later: {}\n", r.failed);
  }
  fmt::print(
      "\n  lowest: of a round, of what target and stretch target are about; x: they are ratios\n");
}

json_line row_json(nvme_results const& all, nvme_result const& r) {
  json_line j, points;
  j.text("what", r.row.text).text("counterpart", r.row.counterpart).text("unit", r.row.unit);
  j.boolean("modelled", r.row.modelled);
  if (r.measured())
    j.number("rate", median(r.rates))
        .number("counterpart_rate", median_of(r.counterparts))
        .number("ratio", median_of(r.ratios));
  j.text("target_of", r.row.about == target_of::ratio ? "ratio" : "rate")
      .number("target", r.row.target)
      .number("stretch_target",
              r.row.stretch_target != 0 ? std::optional(r.row.stretch_target) : std::nullopt);
  if (all.compared) j.boolean("target_reached", reaches(r, r.row.target));
  if (all.compared && r.row.stretch_target != 0)
    j.boolean("stretch_target_reached", reaches(r, r.row.stretch_target));
  j.integer("commands", r.commands)
      .integer("sq_doorbells", r.doorbells)
      .integer("cq_doorbells", r.head_doorbells)
      .integer("missed_pages", r.missed_pages);
  for (std::size_t i = 0; i < r.points.size(); ++i)
    points.number(r.point_names[i], median(r.points[i]));
  j.object("points", points);
  j.numbers("rates", r.rates)
      .numbers("counterpart_rates", r.counterparts)
      .numbers("ratios", r.ratios);
  if (!r.failed.empty()) j.text("failed", r.failed);
  return j;
}

void write_json(nvme_bench_options const& o, config const& settings, nvme_results const& all) {
  json_line j, rows;
  add_heading(j, "nvme");
  for (auto const& r : all.rows) rows.object(r.row.key, row_json(all, r));
  j.object("rows", rows);
  j.integer("runs", static_cast<std::uint64_t>(o.runs))
      .integer("blocks", static_cast<std::uint64_t>(o.blocks))
      .integer("threads", static_cast<std::uint64_t>(o.threads))
      .integer("controller_threads", static_cast<std::uint64_t>(o.controller_threads))
      .integer("queue_pairs", static_cast<std::uint64_t>(o.pairs))
      .integer("depth", static_cast<std::uint64_t>(o.depth))
      .integer("bytes", all.bytes)
      .integer("seed", o.seed)
      .boolean("verified", !o.no_verify)
      .boolean("compared", all.compared);
  add_settings(j, settings);
  write_whole_file(o.json, j.str() + "\n");
}

}  // namespace

void report(nvme_bench_options const& o, config const& settings, nvme_results const& all) {
  print_table(o, settings, all);
  if (!o.json.empty()) write_json(o, settings, all);
}

}  // namespace gpufs::apps
