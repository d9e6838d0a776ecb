#include <apps/bench/bench_file.hpp>
#include <apps/bench/nvme.hpp>
#include <apps/common/program.hpp>
#include <apps/common/progress.hpp>
#include <apps/common/report_files.hpp>
#include <apps/common/run_report.hpp>
#include <apps/common/temp_file.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <exception>

namespace gpufs::apps {

namespace {

void complete(nvme_bench_options& o, bool emulated) {
  fill_in(o.blocks, emulated ? 4 : 120);
  fill_in(o.threads, emulated ? 64 : 512);
  fill_in(o.controller_threads, emulated ? 2 : 8);
  fill_in(o.pairs, emulated ? 4 : 32);
  fill_in(o.depth, emulated ? 64 : 4096);
  if (o.size == "0") o.size = emulated ? "2M" : "1G";
  check_option("--runs", o.runs, 1, 1000);
  check_option("--blocks", o.blocks, 1, 1 << 16);
  check_threads(o.threads, most_command_threads);
  check_option("--controller-threads", o.controller_threads, 1, 64);
  check_option("--queue-pairs", o.pairs, 1, most_pairs);
  check_option("--depth", o.depth, 16, 4096);
  if (!std::has_single_bit(static_cast<std::uint64_t>(o.depth)))
    throw usage_error(fmt::format("--depth={}: must be a power of two", o.depth));
  // Random reads of less would find their pages in the cache.
  (void)size_option("--size", o.size, 2 << 20, 1ull << 40);
}

nvme_setup setup_of(nvme_bench_options const& o, config const& settings, bool emulated) {
  nvme_setup s;
  s.reads = {settings, o.folder, size_option("--size", o.size, 0, ~0ull),
             o.seed,   o.blocks, o.threads};
  s.emulated = emulated;
  s.controller_threads = static_cast<std::uint32_t>(o.controller_threads);
  s.pairs = static_cast<std::uint32_t>(o.pairs);
  s.depth = static_cast<std::uint32_t>(o.depth);
  return s;
}

void add(nvme_result& r, nvme_outcome const& one) {
  r.rates.push_back(one.rate);
  if (one.counterpart) {
    r.counterparts.push_back(*one.counterpart);
    r.ratios.push_back(one.rate / *one.counterpart);
  }
  r.points.resize(one.points.size());
  r.point_names.clear();
  for (std::size_t i = 0; i < one.points.size(); ++i) {
    r.point_names.push_back(one.points[i].name);
    r.points[i].push_back(one.points[i].value);
  }
  r.commands += one.commands;
  r.doorbells += one.doorbells;
  r.head_doorbells += one.head_doorbells;
  r.missed_pages += one.missed_pages;
}

}  // namespace

void add_options(CLI::App& command, nvme_bench_options& o) {
  o.folder = temp_folder();
  command.fallthrough();
  command.add_option("--only", o.only, "rows, by their short names: ROW ROW... or ROW,ROW")
      ->delimiter(',');
  command.add_option("--runs", o.runs, "rounds; the median of each round's figure counts")
      ->capture_default_str();
  command.add_option("--dir,--folder", o.folder, "where the temporary file lies")
      ->capture_default_str();
  command
      .add_option("--size", o.size,
                  "bytes of the namespaces that are read; default 1G, emulated 2M")
      ->check(bench_file::check_size);
  command.add_option("--blocks", o.blocks, "threadblocks; default 120, emulated 4");
  command.add_option("--threads", o.threads, "threads of each; default 512, emulated 64");
  command.add_option("--controller-threads", o.controller_threads,
                     "threads of the controller that answers commands without data; default 8, "
                     "emulated 2");
  command.add_option("--queue-pairs", o.pairs, "queue pairs of it; default 32, emulated 4");
  command.add_option("--depth", o.depth,
                     "entries of a submission queue, a power of two; default 4096, emulated 64");
  command.add_option("--seed", o.seed, "of random offsets and of the temporary file")
      ->capture_default_str();
  command.add_flag("--no-verify", o.no_verify, "do not check the bytes of files");
  command.add_option("--json", o.json, "write one JSON object to this file");
}

int run_nvme_bench(nvme_bench_options& o, config const& settings) {
  bool const emulated = device_to_run_on().kind == "emulated";
  auto const rows = chosen_nvme_rows(o.only);
  complete(o, emulated);
  check_report_files({{"--json", o.json}}, {});
  nvme_results all;
  all.compared = !emulated;
  all.bytes = size_option("--size", o.size, 0, ~0ull);
  for (auto const& row : rows) {
    all.rows.emplace_back();
    all.rows.back().row = row;
  }
  nvme_runs runs(setup_of(o, settings, emulated));
  auto const rounds = static_cast<std::uint64_t>(o.runs);
  progress shown("", rounds * rows.size());
  for (std::uint64_t round = 0; round < rounds; ++round) {
    for (auto& row : all.rows) {
      shown.say(fmt::format("{}, round {} of {}", row.row.key, round + 1, rounds));
      try {
        if (row.failed.empty()) add(row, runs.measure(row.row, round == 0 && !o.no_verify));
      } catch (usage_error const&) {
        throw;
      } catch (config_error const&) {
        throw;
      } catch (std::exception const& e) {
        row.failed = e.what();
      }
      shown.advance(1);
    }
  }
  report(o, settings, all);
  bool const good =
      std::ranges::all_of(all.rows, [](nvme_result const& r) { return r.failed.empty(); });
  return good ? 0 : status_failed;
}

}  // namespace gpufs::apps
