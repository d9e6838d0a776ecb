// Reports `gpufs bench patterns`: a table on stdout, one JSON object, a CSV and a chart of it.
#include <apps/bench/chart.hpp>
#include <apps/bench/patterns.hpp>
#include <apps/common/json_line.hpp>
#include <apps/common/median.hpp>
#include <apps/common/run_report.hpp>
#include <apps/common/unfinished_file.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

namespace gpufs::apps {

namespace {

std::string cell(std::optional<double> value) {
  if (!value) return "-";
  return *value >= 1000 ? fmt::format("{:.0f}", *value) : fmt::format("{:.3f}", *value);
}

std::optional<double> median_of(std::vector<double> const& values) {
  return values.empty() ? std::nullopt : std::optional(median(values));
}

char const* verdict(patterns_result const& all, pattern_result const& r) {
  if (!all.compared) return "";
  return r.meets(r.row.stretch_target) ? "stretch met" : r.meets(r.row.target) ? "met" : "NOT MET";
}

void print_table(patterns_options const& o, config const& settings, patterns_result const& all) {
  fmt::print(
      "gpufs bench patterns on {}: {} blocks x {} threads, {} of {}, median of {} rounds{}\n",
      current_device().name, o.blocks, o.threads, format_size(all.largest), all.file, o.rounds,
      o.no_verify ? "" : ", bytes equal the file's");
  if (current_device().kind == "emulated")
    fmt::print("emulated device: correctness only, its rates say nothing of a GPU\n");
  else if (!all.compared)
    fmt::print("targets are for the default size\n");
  std::size_t width = 0;
  for (auto const& r : all.rows) width = std::max(width, std::string_view(r.row.text).size());
  fmt::print(
      "settings: {}\n\n  {:<{}} {:<5} {:>9} {:>9} {:>10} {:>7} {:>6} {:>6}  {:<9} {:>9} "
      "{:>9}  {}\n",
      changed_settings(settings), "", width, "", "rate", "worst", "equivalent", "ratio", "target",
      "stretch", "", "of wanted", "of pages", "equivalent");
  for (auto const& r : all.rows) {
    fmt::print("  {:<{}} ", r.row.text, width);
    if (!r.measured()) {
      fmt::print("FAILED: {}\n", r.failed);
      continue;
    }
    fmt::print("{:<5} {:>9} {:>9} {:>10} {:>7} {:>6} {:>6}  {:<9} {:>9} {:>9}  {}\n", r.row.unit,
               cell(median(r.rates)), cell(r.worst()), cell(median_of(r.equivalents)),
               cell(median_of(r.ratios)), target_cell(all.compared, r.row.about, r.row.target),
               target_cell(all.compared, r.row.about, r.row.stretch_target), verdict(all, r),
               cell(r.per_wanted()), cell(r.per_touched()), r.row.equivalent);
    if (r.registering_ms)
      fmt::print("    registering file windows took {:.1f} ms\n", *r.registering_ms);
    if (!r.failed.empty()) fmt::print("    FAILED later: {}\n", r.failed);
  }
  fmt::print(
      "\n  of wanted: how often each wanted byte was read from the host (rows that write: written "
      "to it)\n  of pages: the same, of the bytes of the 4 KiB pages that were touched\n");
}

json_line row_json(patterns_result const& all, pattern_result const& r) {
  json_line j;
  j.text("what", r.row.text).text("equivalent", r.row.equivalent).text("unit", r.row.unit);
  if (r.measured()) {
    j.number("rate", median(r.rates)).number("worst", r.worst());
    j.number("equivalent_rate", median_of(r.equivalents)).number("ratio", median_of(r.ratios));
  }
  j.text("target_of", r.row.about == target_of::ratio ? "ratio" : "rate")
      .number("target", r.row.target)
      .number("stretch_target", r.row.stretch_target)
      .number("of_stretch_target", r.of_stretch_target());
  if (all.compared)
    j.boolean("target_met", r.meets(r.row.target))
        .boolean("stretch_target_met", r.meets(r.row.stretch_target));
  if (r.row.limited != host_limit::none)
    j.number(r.row.limited == host_limit::wanted ? "most_per_wanted" : "most_per_touched",
             r.row.limit);
  j.integer("host_bytes", r.host_bytes)
      .integer("wanted_bytes", r.wanted)
      .integer("touched_bytes", r.touched.pages)
      .integer("asked_page_bytes", r.touched.asked)
      .number("host_per_wanted", r.per_wanted())
      .number("host_per_touched", r.per_touched())
      .number("registering_ms", r.registering_ms);
  j.numbers("rates", r.rates)
      .numbers("equivalent_rates", r.equivalents)
      .numbers("ratios", r.ratios);
  if (!r.failed.empty()) j.text("failed", r.failed);
  return j;
}

void write_json(patterns_options const& o, config const& settings, patterns_result const& all) {
  json_line j, rows;
  add_heading(j, "patterns");
  for (auto const& r : all.rows) rows.object(r.row.key, row_json(all, r));
  j.object("rows", rows);
  j.text("file", all.file)
      .integer("bytes", all.largest)
      .integer("rounds", static_cast<std::uint64_t>(o.rounds))
      .integer("blocks", static_cast<std::uint64_t>(o.blocks))
      .integer("threads", static_cast<std::uint64_t>(o.threads))
      .integer("seed", o.seed)
      .boolean("verified", !o.no_verify)
      .boolean("compared", all.compared);
  add_settings(j, settings);
  write_whole_file(o.json, j.str() + "\n");
}

std::string csv_cell(std::optional<double> value) {
  return value ? fmt::format("{:.6g}", *value) : "";
}

void write_csv(patterns_options const& o, patterns_result const& all) {
  std::string text =
      "row,what,unit,rate,worst,equivalent,ratio,target_of,target,stretch_target,of_stretch_target,"
      "host_per_wanted,"
      "host_per_touched\n";
  for (auto const& r : all.rows) {
    if (!r.measured()) continue;
    text += fmt::format("{},\"{}\",{},{:.6g},{:.6g},{},{},{},{:.6g},{:.6g},{},{},{}\n", r.row.key,
                        r.row.text, r.row.unit, median(r.rates), r.worst(),
                        csv_cell(median_of(r.equivalents)), csv_cell(median_of(r.ratios)),
                        r.row.about == target_of::ratio ? "ratio" : "rate", r.row.target,
                        r.row.stretch_target, csv_cell(r.of_stretch_target()),
                        csv_cell(r.per_wanted()), csv_cell(r.per_touched()));
  }
  write_whole_file(o.csv, text);
}

}  // namespace

void report(patterns_options const& o, config const& settings, patterns_result const& r) {
  print_table(o, settings, r);
  if (!o.json.empty()) write_json(o, settings, r);
  if (o.csv.empty()) return;
  write_csv(o, r);
  if (o.no_charts) return;
  if (current_device().kind == "emulated") {
    fmt::print("  no chart: emulated device: correctness only\n");
    return;
  }
  auto const what =
      fmt::format("files of up to {}, medians of {} rounds", format_size(r.largest), o.rounds);
  if (std::string const why = draw_chart(o.csv, png_beside(o.csv), what); !why.empty())
    fmt::print("  no chart: {}\n", why);
}

}  // namespace gpufs::apps
