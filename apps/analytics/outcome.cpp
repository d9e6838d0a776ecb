#include <gpufs/device.hpp>

#include <apps/analytics/outcome.hpp>
#include <apps/common/median.hpp>
#include <apps/common/print_error.hpp>
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

std::uint64_t bytes_over_the_bus(statistics const& c) {
  return c.bytes_pulled + c.bytes_dma + c.bytes_registered;
}

/// How often each byte of the data was read. The daemon has no part in reads of drives.
std::optional<double> reads_per_byte(run_options const& o, statistics const& c,
                                     std::uint64_t data_bytes) {
  if (o.drives == 0) return host_reads_per_byte(c, data_bytes);
  if (data_bytes == 0) return std::nullopt;
  return static_cast<double>(bytes_over_the_bus(c)) / static_cast<double>(data_bytes);
}

void print_json(run_options const& o, report_heading const& heading, measured const& m,
                json_line const& members) {
  run_outcome const& r = m.median_run();
  json_line j;
  add_heading(j, heading.program);
  j.text("variant", name_of(m.how)).integer("seed", o.seed).boolean("cold", o.cold);
  if (o.drives != 0 && r.counters)
    j.integer("drives", static_cast<std::uint64_t>(o.drives)).text("modelled", o.drive);
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
        .number("io_amplification", reads_per_byte(o, *r.counters, heading.data_bytes))
        .integer("bytes_over_the_bus", bytes_over_the_bus(*r.counters));
    j.members(to_json_fields(*r.counters));
  }
  if (o.check) j.boolean("verified", m.wrong.empty());
  if (r.counters) add_settings(j, *heading.settings);
  fmt::print("{}\n", j.str());
}

void print_text(run_options const& o, report_heading const& heading, measured const& m) {
  run_outcome const& r = m.median_run();
  fmt::print("{:<9} {:>9.4f} s ({:.3f} GB/s), {:.4f} s of it before the kernel, on {}\n",
             name_of(m.how), r.seconds, gigabytes_per_second(heading.data_bytes, r.seconds),
             r.load_seconds, current_device().name);
  if (r.counters) fmt::print("{}", to_text(*r.counters));
  if (r.counters) {
    fmt::print("  each byte of the data was read {:.3f} times\n",
               reads_per_byte(o, *r.counters, heading.data_bytes).value_or(0));
  }
  if (o.drives != 0 && r.counters)
    fmt::print("  modelled: read from drives that behave like {}, {} of them\n", o.drive, o.drives);
  if (r.registering_seconds > 0)
    fmt::print("  windows registered before, in {:.3f} s\n", r.registering_seconds);
  for (auto const& note : r.notes) fmt::print("  note: {}\n", note);
}

}  // namespace

run_outcome const& measured::median_run() const { return runs[median_index(seconds_of(*this))]; }

void print_outcome(run_options const& o, report_heading const& heading, measured const& m,
                   json_line const& members) {
  o.json ? print_json(o, heading, m, members) : print_text(o, heading, m);
}

int conclude(run_options const& o, std::string_view program, std::vector<measured> const& all,
             std::string_view checked) {
  bool good = true;
  for (auto const& m : all) {
    if (m.wrong.empty()) continue;
    print_error("{}: {}: check failed: {}\n", program, name_of(m.how), m.wrong);
    good = false;
  }
  if (o.check && good && !o.json) fmt::print("checked: {}\n", checked);
  return good ? 0 : status_failed;
}

}  // namespace gpufs::apps::analytics
