#include <apps/bench/named_rows.hpp>
#include <apps/bench/peer_rows.hpp>
#include <apps/bench/peers.hpp>
#include <apps/common/json_line.hpp>
#include <apps/common/median.hpp>
#include <apps/common/program.hpp>
#include <apps/common/progress.hpp>
#include <apps/common/run_report.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <new>

namespace gpufs::apps {

namespace {

/// A way's rates for one pattern, one per round, in GB/s.
struct peer_rates {
  std::vector<double> rates;
  std::string missing;  ///< why there are none
  bool failed = false;

  void measure(double (*way)(peer_work const&), peer_work const& w) {
    if (way == nullptr || !missing.empty()) return;
    try {
      rates.push_back(way(w));
    } catch (not_here const& why) {
      missing = why.what();
    } catch (std::bad_alloc const&) {
      throw;
    } catch (std::runtime_error const& why) {
      missing = why.what();
      failed = true;
      rates.clear();
    }
  }
};

struct peer_result {
  peer_row row;
  peer_rates stream, records;
};

peer_records draw_records(peers_options const& o, std::uint64_t file_bytes) {
  peer_records r;
  r.bytes = size_option("--record", o.record, 8, 1 << 30);
  std::uint64_t const in_file = file_bytes / r.bytes;
  if (in_file == 0 || in_file > 1ull << 32)
    throw usage_error(fmt::format("--record={}: a file of {} bytes must have 1 to 2^32 records",
                                  o.record, file_bytes));
  for (std::int64_t i = 0; i < o.records; ++i)
    r.numbers.push_back(
        static_cast<std::uint32_t>(generate_below(o.seed, std::uint64_t(i), in_file)));
  return r;
}

json_line to_json(peer_rates const& r) {
  json_line j;
  j.number("GBps", r.rates.empty() ? std::nullopt : std::optional(median(r.rates)));
  j.numbers("GBps_runs", r.rates);
  if (!r.missing.empty()) j.text(r.failed ? "failed" : "missing", r.missing);
  return j;
}

void print_json(peers_options const& o, study const& all, peer_records const& records,
                std::vector<peer_result> const& results) {
  json_line j, rows;
  add_heading(j, "peers");
  for (auto const& r : results) {
    json_line one;
    one.text("what", r.row.what);
    if (r.row.stream != nullptr) one.object("stream", to_json(r.stream));
    if (r.row.records != nullptr) one.object("records", to_json(r.records));
    rows.object(r.row.key, one);
  }
  j.object("rows", rows)
      .integer("bytes", all.bytes())
      .integer("record", records.bytes)
      .integer("records", records.numbers.size())
      .integer("runs", static_cast<std::uint64_t>(o.runs))
      .boolean("verified", !o.no_verify);
  add_settings(j, all.settings());
  fmt::print("{}\n", j.str());
}

std::string cell(peer_rates const& r, double unit) {
  return r.rates.empty() ? "-" : fmt::format("{:.3g}", median(r.rates) / unit);
}

void print_table(peers_options const& o, study const& all, peer_records const& records,
                 std::vector<peer_result> const& results) {
  fmt::print(
      "gpufs bench peers on {}: {} bytes, {} random records of {} bytes, median of {} "
      "rounds{}\n\n  {:<58} {:>12} {:>14}\n",
      current_device().name, all.bytes(), records.numbers.size(), records.bytes, o.runs,
      o.no_verify ? "" : ", bytes checked", "", "stream, GB/s", "M records/s");
  double const million = double(records.bytes) / 1e3;  // records a second, in GB/s
  for (auto const& r : results) {
    fmt::print("  {:<58} {:>12} {:>14}\n", r.row.what, cell(r.stream, 1), cell(r.records, million));
    for (auto const* const part : {&r.stream, &r.records})
      if (!part->missing.empty() && (part == &r.stream || part->missing != r.stream.missing))
        fmt::print("    {}: {}\n", part->failed ? "failed" : "not measured", part->missing);
  }
}

}  // namespace

void add_options(CLI::App& command, peers_options& o) {
  add_options(command, static_cast<study_options&>(o));
  command
      .add_option("--size", o.size, "bytes to read; default: all of --file, else 2G, emulated 16M")
      ->check(bench_file::check_size);
  command.add_option("--runs", o.runs, "rounds; default 5");
  command.add_option("--record", o.record, "bytes of a record, 8 to 1G")->capture_default_str();
  command.add_option("--records", o.records,
                     "random records that are read; default 262144, emulated 256");
  command.add_option("--only", o.only, "rows, by their short names");
  command.add_flag("--json", o.json, "print one JSON object");
}

int run_peers(peers_options& o, config const& settings) {
  complete(o, 5);
  bool const emulated = device_to_run_on().kind == "emulated";
  fill_in(o.records, emulated ? 256 : 1 << 18);
  check_option("--records", o.records, 1, 1 << 28);
  std::uint64_t bytes = size_option("--size", o.size, 0, ~0ull);
  if (bytes == 0 && o.file.empty()) bytes = emulated ? 16 << 20 : 2ull << 30;
  auto const rows = o.only.empty() ? peer_rows() : named_rows(peer_rows(), o.only);
  bench_file const file(o.file, o.folder, bytes, o.seed);
  study all(o, settings, *file, bytes == 0 ? file->size() : bytes);
  peer_records const records = draw_records(o, all.bytes());

  std::vector<peer_result> results;
  for (auto const& row : rows) results.push_back({row, {}, {}});
  progress shown("", static_cast<std::uint64_t>(o.runs) * rows.size());
  all.file().load_into_page_cache(all.bytes());
  for (std::int64_t round = 0; round < o.runs; ++round) {
    all.check_bytes(round == 0);
    for (auto& r : results) {
      shown.say(r.row.what);
      r.stream.measure(r.row.stream, {all, records});
      r.records.measure(r.row.records, {all, records});
      shown.advance(1);
    }
  }
  o.json ? print_json(o, all, records, results) : print_table(o, all, records, results);
  auto const failed = [](peer_result const& r) { return r.stream.failed || r.records.failed; };
  return std::ranges::any_of(results, failed) ? status_failed : 0;
}

}  // namespace gpufs::apps
