// Prints what a benchmark measured: as one JSON object, or for people.
#include <gpufs/device.hpp>

#include <apps/bench/bench.hpp>
#include <apps/common/json_line.hpp>
#include <apps/common/run_report.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace gpufs::apps {

namespace {

void add_shape(json_line& to, bench_options const& o) {
  to.integer("blocks", static_cast<std::uint64_t>(o.blocks))
      .integer("threads", static_cast<std::uint64_t>(o.threads));
}

void add_notes(json_line& to, std::vector<std::string> const& notes) {
  std::string all;
  for (auto const& note : notes) all += fmt::format("{}{}", all.empty() ? "" : "; ", note);
  if (!all.empty()) to.text("notes", all);
}

void print_json(bench_options const& o, config const& settings, bench_result const& r) {
  double const seconds = r.seconds[r.median];
  double const GBps = gigabytes_per_second(r.bytes(), seconds);
  json_line j;
  add_heading(j, o.pattern);
  add_throughput(j, r.bytes(), seconds, r.counters);
  j.number("host_per_wanted", host_reads_per_byte(r.counters, r.bytes()));
  j.boolean("verified", r.verified).integer("verified_requests", r.checked);
  if (!r.mismatch.empty()) j.text("mismatch", r.mismatch);
  add_members(j, r.measured, GBps);
  j.text("file", r.file).integer("file_bytes", r.file_bytes).boolean("cold", o.cold);
  if (o.cold) j.number("cached_before", r.cached_before);
  add_shape(j, o);
  j.integer("req", r.plan.request)
      .integer("stride", r.plan.stride)
      .integer("seed", r.plan.seed)
      .integer("repeat", r.repeat);
  if (o.is("rand")) {
    double const rate = static_cast<double>(r.plan.draws * r.repeat) / seconds;
    j.number("requests_per_second", rate)
        .text("access", o.access)
        .text("level", o.level)
        .text("distribution", o.distribution);
    if (o.zipf()) j.number("theta", o.theta);
    j.boolean("hot", o.hot);
    if (r.measured.storage_random_iops && r.plan.request == 4096)
      j.number("of_storage_random", rate / *r.measured.storage_random_iops);
  }
  j.numbers("run_seconds", r.seconds);
  j.text("backend", r.backend);
  add_settings(j, settings);
  auto notes = r.notes;
  notes.insert(notes.end(), r.measured.notes.begin(), r.measured.notes.end());
  add_notes(j, notes);
  fmt::print("{}\n", j.str());
}

void print_heading(bench_options const& o, config const& settings, std::string const& backend,
                   std::vector<std::string> const& notes) {
  fmt::print("gpufs bench {} on {}: {} blocks x {} threads, daemon reads with {}\n", o.pattern,
             current_device().name, o.blocks, o.threads, backend);
  fmt::print("settings: {}\n", changed_settings(settings));
  for (auto const& note : notes) fmt::print("note: {}\n", note);
}

std::string verdict(bench_options const& o, bench_result const& r) {
  if (o.no_verify) return "no: not asked for";
  return r.verified ? fmt::format("yes: {} requests equal what pread gives", r.checked)
                    : "NO: " + r.mismatch;
}

}  // namespace

void print(bench_options const& o, config const& settings, bench_result const& r) {
  if (o.json) return print_json(o, settings, r);
  double const GBps = gigabytes_per_second(r.bytes(), r.seconds[r.median]);
  auto const [fastest, slowest] = std::ranges::minmax(r.seconds);
  print_heading(o, settings, r.backend, r.notes);
  fmt::print("file: {}, {} bytes{}; requests of {}", r.file, r.file_bytes,
             o.cold ? ", not in the OS page cache" : "", format_size(r.plan.request));
  if (o.is("rand")) {
    fmt::print(", by {}, a {} each, {}, seed {}", o.access, o.level,
               o.zipf() ? fmt::format("zipf {}", o.theta) : std::string("uniform"), r.plan.seed);
  }
  if (r.repeat != 1) fmt::print(", {} passes", r.repeat);
  if (o.cold && r.cached_before)
    fmt::print("; still cached before a run: {:.1f} %", *r.cached_before * 100);
  fmt::print(
      "\n\n  {:<30} {:>10.3f} GB/s   {} bytes in {:.6f} s, median of {}: {:.3f} to {:.3f} GB/s\n",
      "throughput", GBps, r.bytes(), r.seconds[r.median], r.seconds.size(),
      gigabytes_per_second(r.bytes(), slowest), gigabytes_per_second(r.bytes(), fastest));
  if (o.is("rand")) {
    fmt::print("  {:<30} {:>10.0f} /s\n", "requests",
               static_cast<double>(r.plan.draws * r.repeat) / r.seconds[r.median]);
  }
  fmt::print("{}", to_text(r.measured, GBps));
  fmt::print("  {}\n", host_reads_text(r.counters, r.bytes()));
  fmt::print("  {:<30} {}\n\ncounters of that run:\n{}", "bytes verified", verdict(o, r),
             to_text(r.counters));
}

void print(bench_options const& o, config const& settings, rpc_result const& r) {
  if (!o.json) {
    print_heading(o, settings, r.backend, r.notes);
    fmt::print("\n  {:<36} {:>10.2f} us   median, {} round trips, {} runs\n",
               "round trip, one block", r.round_trip_us, r.rounds, o.runs);
    fmt::print("  {:<36} {:>10.2f} us   median\n",
               fmt::format("round trip, {} blocks at once", o.blocks), r.round_trip_all_us);
    fmt::print("  {:<36} {:>10.0f} /s\n\ncounters of one block's runs:\n{}", "all of them together",
               r.rate, to_text(r.counters));
    return;
  }
  json_line j;
  add_heading(j, o.pattern);
  add_throughput(j, 0, r.seconds, r.counters);
  j.boolean("verified", false);  // no file bytes are read that could be
  j.number("round_trip_us", r.round_trip_us)
      .number("round_trip_all_blocks_us", r.round_trip_all_us);
  j.number("round_trips_per_second_all_blocks", r.rate);
  add_shape(j, o);
  j.integer("rounds", r.rounds).text("backend", r.backend);
  add_settings(j, settings);
  add_notes(j, r.notes);
  fmt::print("{}\n", j.str());
}

}  // namespace gpufs::apps
