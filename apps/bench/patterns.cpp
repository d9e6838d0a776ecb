#include <apps/bench/bench_file.hpp>
#include <apps/bench/chart.hpp>
#include <apps/bench/idle_mapping.hpp>
#include <apps/bench/named_rows.hpp>
#include <apps/bench/pattern_runs.hpp>
#include <apps/bench/patterns.hpp>
#include <apps/common/median.hpp>
#include <apps/common/memory_folder.hpp>
#include <apps/common/print_error.hpp>
#include <apps/common/program.hpp>
#include <apps/common/progress.hpp>
#include <apps/common/report_files.hpp>
#include <apps/common/run_report.hpp>
#include <apps/common/temp_file.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <iterator>

namespace gpufs::apps {

namespace {

bool pulls(access_row row) {
  using enum access_row;
  return row == pieces || row == pages || row == random || row == random_blocks || row == floats;
}

/// Bytes of the largest chosen row of those that `counts` takes.
template <class Counts>
std::uint64_t most_bytes(std::vector<pattern_row> const& rows, std::uint64_t largest,
                         Counts const& counts) {
  std::uint64_t most = 1 << 20;
  for (auto const& row : rows)
    if (counts(row.row)) most = std::max(most, scaled_bytes(row, largest));
  return most;
}

/// Bytes of the file that the rows read. The equivalent of `records` is the row `stream`.
std::uint64_t bytes_to_read(std::vector<pattern_row> rows, std::uint64_t largest) {
  auto const is = [](access_row wanted) {
    return [=](pattern_row const& row) { return row.row == wanted; };
  };
  if (std::ranges::any_of(rows, is(access_row::records)))
    rows.push_back(*std::ranges::find_if(pattern_rows(), is(access_row::stream)));
  return most_bytes(rows, largest, [](access_row) { return true; });
}

void complete(patterns_options& o, bool emulated) {
  fill_in(o.blocks, emulated ? 8 : 120);
  fill_in(o.threads, emulated ? 64 : 512);
  check_option("--blocks", o.blocks, 1, 1 << 20);
  check_threads(o.threads);
  check_option("--rounds", o.rounds, 1, 1000);
}

void add(pattern_result& r, pattern_outcome const& one) {
  r.rates.push_back(one.rate);
  if (one.equivalent) {
    r.equivalents.push_back(*one.equivalent);
    r.ratios.push_back(r.row.less_is_better() ? *one.equivalent / one.rate
                                              : one.rate / *one.equivalent);
  }
  r.wanted = one.wanted;
  r.touched = one.touched;
  r.host_bytes = std::max(r.host_bytes, one.host_bytes());
  r.registering_ms = std::max(r.registering_ms, registering_ms(one.counters));  // nothing is least
}

std::optional<double> share(std::uint64_t of, std::uint64_t by) {
  if (by == 0) return std::nullopt;
  return static_cast<double>(of) / static_cast<double>(by);
}

}  // namespace

std::optional<double> pattern_result::judged() const {
  auto const& values = row.about == target_of::ratio ? ratios : rates;
  return values.empty() ? std::nullopt : std::optional(median(values));
}

double pattern_result::worst() const {
  return row.less_is_better() ? std::ranges::max(rates) : std::ranges::min(rates);
}

std::optional<double> pattern_result::per_wanted() const { return share(host_bytes, wanted); }

std::optional<double> pattern_result::per_touched() const {
  return share(host_bytes, touched.pages);
}

bool pattern_result::meets(double target) const {
  auto const got = judged();
  if (!got) return false;
  auto const read = row.limited == host_limit::none     ? std::nullopt
                    : row.limited == host_limit::wanted ? per_wanted()
                                                        : per_touched();
  if (read && *read > row.limit) return false;
  return row.less_is_better() ? *got <= target : *got >= target;
}

std::optional<double> pattern_result::of_stretch_target() const {
  auto const got = judged();
  if (!got) return std::nullopt;
  return row.less_is_better() ? row.stretch_target / *got : *got / row.stretch_target;
}

void add_options(CLI::App& command, patterns_options& o) {
  o.folder = temp_folder();
  command.fallthrough();
  command.add_option("--file", o.file, bench_file::help);
  command
      .add_option("--dir,--folder", o.folder,
                  "where temporary files lie, and files that are written")
      ->capture_default_str();
  command.add_option("--tmpfs", o.tmpfs, "a folder on tmpfs or ramfs, for the row writetmpfs")
      ->capture_default_str();
  command
      .add_option("--size", o.size,
                  "bytes of the largest row; the others shrink along; default 8G, emulated 16M")
      ->check(bench_file::check_size);
  command.add_option("--only", o.only, "rows, by their short names: row,row,...")->delimiter(',');
  command
      .add_option("--rounds,--runs", o.rounds, "times that each row is measured; the median counts")
      ->capture_default_str();
  command.add_option("--blocks", o.blocks, "threadblocks; default 120, emulated 8");
  command.add_option("--threads", o.threads, "threads of each; default 512, emulated 64");
  command.add_option("--seed", o.seed, "of random offsets and of the temporary file")
      ->capture_default_str();
  command.add_flag("--no-verify", o.no_verify, "do not check the bytes against the file");
  command.add_flag("--idle-mapping", o.has_idle_mapping, idle_mapping_help);
  command.add_option("--json", o.json, "write one JSON object to this file");
  command.add_option("--csv", o.csv, "write the table to this file, and a chart beside it as PNG");
  command.add_flag("--no-charts", o.no_charts, "write the CSV only");
  command
      .add_option("--check", o.check,
                  "counters: fail if a row reads more than 1.1 times the bytes of the 4 KiB pages "
                  "that it touches")
      ->check(CLI::IsMember({"counters"}));
}

patterns_result measure_patterns(patterns_options& o, config const& settings) {
  auto const rows = o.only.empty() ? pattern_rows() : named_rows(pattern_rows(), o.only);
  bool const emulated = device_to_run_on().kind == "emulated";
  complete(o, emulated);
  // Where the usual folder is not in memory, that row fails, and the others do not.
  bool const writes =
      std::ranges::find(rows, access_row::write_tmpfs, &pattern_row::row) != rows.end();
  if (writes && o.tmpfs != patterns_options{}.tmpfs) require_in_memory("--tmpfs", o.tmpfs);
  std::uint64_t largest = size_option("--size", o.size, 0, 1ull << 48);
  if (largest == 0) largest = emulated ? 16 << 20 : largest_row_bytes;
  std::uint64_t const file_bytes = bytes_to_read(rows, largest);
  bench_file const file(o.file, o.folder, file_bytes, o.seed);
  if (file->size() < file_bytes)
    throw usage_error(fmt::format("--file={}: has {} bytes, the rows need {}: lower --size", o.file,
                                  file->size(), file_bytes));

  patterns_result r{file.name(), largest, !emulated && largest >= largest_row_bytes, {}};
  for (auto const& row : rows) r.rows.push_back({row, {}, {}, {}, 0, {}, 0, {}, {}});
  pattern_runs runs({*file,
                     settings,
                     {static_cast<unsigned>(o.blocks), static_cast<unsigned>(o.threads)},
                     o.folder,
                     o.tmpfs,
                     largest,
                     most_bytes(rows, largest, pulls),
                     o.seed});
  auto const rounds = static_cast<std::uint64_t>(o.rounds);
  progress shown("", rounds * rows.size());
  for (std::uint64_t round = 0; round < rounds; ++round) {
    runs.begin_round(round == 0 && !o.no_verify);
    for (auto& row : r.rows) {
      shown.say(fmt::format("{}, round {} of {}", row.row.key, round + 1, rounds));
      try {
        if (row.failed.empty()) add(row, runs.measure(row.row));
      } catch (std::exception const& e) {
        row.failed = e.what();
      }
      shown.advance(1);
    }
  }
  return r;
}

int run_patterns(patterns_options& o, config const& settings) {
  bool const has_chart = !o.csv.empty() && !o.no_charts;
  check_report_files({{"--json", o.json},
                      {"--csv", o.csv},
                      {"the chart beside --csv", has_chart ? png_beside(o.csv) : ""}},
                     {o.file});
  idle_mapping const beside(o.has_idle_mapping);
  patterns_result const r = measure_patterns(o, settings);
  report(o, settings, r);
  bool good = std::ranges::all_of(r.rows, [](auto const& row) { return row.failed.empty(); });
  if (o.check.empty()) return good ? 0 : status_failed;
  for (auto const& row : r.rows) {
    if (row.per_touched().value_or(0) <= most_per_touched) continue;
    print_error("{}: {:.3f} times the bytes of the touched pages came from the host\n", row.row.key,
                *row.per_touched());
    good = false;
  }
  return good ? 0 : status_failed;
}

}  // namespace gpufs::apps
