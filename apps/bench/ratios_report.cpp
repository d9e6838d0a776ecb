// Prints the ratios: as one JSON object, or as a table.
#include <apps/bench/ratios.hpp>
#include <apps/common/json_line.hpp>
#include <apps/common/median.hpp>
#include <apps/common/run_report.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace gpufs::apps {

namespace {

/// Why the ratios are not compared with their targets, or nothing.
char const* why_not_compared(ratios const& r) {
  constexpr std::uint64_t paper_bytes = 960'000'000;  // GPUfs readahead paper, section 3
  if (current_device().kind == "emulated") return "emulated device: correctness only";
  if (r.bytes < paper_bytes) return "targets are for files of 960 MB or more";
  return "";
}

char const* verdict(ratio_result const& r) {
  if (r.row.target == 0) return "";
  double const got = median(r.ratios);
  return got >= r.row.stretch_target ? "stretch reached"
         : got >= r.row.target       ? "reached"
                                     : "NOT REACHED";
}

std::string number_or_dash(double value) { return value == 0 ? "-" : fmt::format("{:.2f}", value); }

void print_json(ratio_options const& o, config const& settings, ratios const& r) {
  json_line j;
  add_heading(j, "ratios");
  bool const compared = *why_not_compared(r) == 0;
  json_line rows;
  for (auto const& row : r.rows) {
    json_line one;
    one.text("what", row.row.text);
    bool const any = !row.ratios.empty();
    one.number("ratio", any ? std::optional(median(row.ratios)) : std::nullopt);
    if (compared && row.row.target != 0) {
      one.number("target", row.row.target).number("stretch_target", row.row.stretch_target);
      one.boolean("target_reached", any && median(row.ratios) >= row.row.target);
      one.boolean("stretch_target_reached", any && median(row.ratios) >= row.row.stretch_target);
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
  j.number("host_per_wanted", host_reads_per_byte(r.counters, r.wanted_bytes));
  j.number("registering_ms", registering_ms(r.counters));
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
  std::string_view const why_not = why_not_compared(r);
  if (!why_not.empty()) fmt::print("{}\n", why_not);
  fmt::print("settings: {}\n\n  {:<{}} {:>8} {:>8} {:>6} {:>6}  {:<13} {}\n",
             changed_settings(settings), "", width, "measured", "from", "target", "stretch", "",
             "GB/s");
  for (auto const& row : r.rows) {
    fmt::print("  {:<{}} ", row.row.text, width);
    if (row.ratios.empty()) {
      fmt::print("not measured: {}\n", row.missing);
      continue;
    }
    bool const compared = why_not.empty();
    fmt::print("{:>8.3f} {:>8.3f} {:>6} {:>6}  {:<13} {:.3f} / {:.3f}\n", median(row.ratios),
               std::ranges::min(row.ratios), compared ? number_or_dash(row.row.target) : "-",
               compared ? number_or_dash(row.row.stretch_target) : "-",
               compared ? verdict(row) : "", median(row.over), median(row.under));
  }
  if (r.wanted_bytes != 0)
    fmt::print("\n  all passes by gread: {}\n", host_reads_text(r.counters, r.wanted_bytes));
}

}  // namespace gpufs::apps
