#include <gpufs/device.hpp>

#include <apps/analytics/outcome.hpp>
#include <apps/common/median.hpp>
#include <apps/common/program.hpp>
#include <apps/common/run_report.hpp>

#include <fmt/format.h>

namespace gpufs::apps::analytics {

namespace {

std::vector<double> seconds_of(measured const& m) {
  std::vector<double> all;
  for (auto const& r : m.runs) all.push_back(r.seconds);
  return all;
}

/// Of the look-ups of pages, how many the page cache answered. Nothing if there were none.
std::optional<double> hit_rate(statistics const& c) {
  auto const all = static_cast<double>(c.hits + c.misses + c.waits);
  return all > 0 ? std::optional(static_cast<double>(c.hits) / all) : std::nullopt;
}

void print_json(run_options const& o, report_heading const& heading, measured const& m,
                json_line const& members) {
  run_outcome const& r = m.median_run();
  json_line j;
  add_heading(j, heading.program);
  j.text("variant", name_of(m.how)).integer("seed", o.seed).boolean("cold", o.cold);
  std::string const inside = members.str();
  if (inside.size() > 2) j.members(std::string_view(inside).substr(1, inside.size() - 2));
  j.integer("data_bytes", heading.data_bytes)
      .number("seconds", r.seconds)
      .number("load_seconds", r.load_seconds)
      .number("kernel_seconds", r.seconds - r.load_seconds)
      .numbers("run_seconds", seconds_of(m))
      .number("GBps", gigabytes_per_second(heading.data_bytes, r.seconds));
  if (r.counters) {
    j.number("registering_seconds", r.registering_seconds);
    j.number("hit_rate", hit_rate(*r.counters))
        .number("io_amplification", host_reads_per_byte(*r.counters, heading.data_bytes))
        .integer("bytes_over_the_bus",
                 r.counters->bytes_pulled + r.counters->bytes_dma + r.counters->bytes_registered);
    j.members(to_json_fields(*r.counters));
  }
  if (o.check) j.boolean("verified", m.wrong.empty());
  if (r.counters) add_settings(j, *heading.settings);
  fmt::print("{}\n", j.str());
}

void print_text(report_heading const& heading, measured const& m) {
  run_outcome const& r = m.median_run();
  fmt::print("{:<9} {:>9.4f} s ({:.3f} GB/s), {:.4f} s of it before the kernel, on {}\n",
             name_of(m.how), r.seconds, gigabytes_per_second(heading.data_bytes, r.seconds),
             r.load_seconds, current_device().name);
  if (r.counters) fmt::print("{}", to_text(*r.counters));
  if (r.counters) {
    fmt::print("  each byte of the data was read {:.3f} times\n",
               host_reads_per_byte(*r.counters, heading.data_bytes).value_or(0));
  }
  if (r.registering_seconds > 0)
    fmt::print("  windows registered before, in {:.3f} s\n", r.registering_seconds);
  for (auto const& note : r.notes) fmt::print("  note: {}\n", note);
}

}  // namespace

run_outcome const& measured::median_run() const { return runs[median_index(seconds_of(*this))]; }

void print_outcome(run_options const& o, report_heading const& heading, measured const& m,
                   json_line const& members) {
  o.json ? print_json(o, heading, m, members) : print_text(heading, m);
}

int conclude(run_options const& o, std::string_view program, std::vector<measured> const& all,
             std::string_view checked) {
  bool good = true;
  for (auto const& m : all) {
    if (m.wrong.empty()) continue;
    fmt::print(stderr, "{}: {}: check failed: {}\n", program, name_of(m.how), m.wrong);
    good = false;
  }
  if (o.check && good && !o.json) fmt::print("checked: {}\n", checked);
  return good ? 0 : status_failed;
}

}  // namespace gpufs::apps::analytics
