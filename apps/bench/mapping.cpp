#include <gpufs/device.hpp>

#include <apps/bench/figure_script.hpp>
#include <apps/bench/mapping.hpp>
#include <apps/bench/mapping_plan.hpp>
#include <apps/common/durable.hpp>
#include <apps/common/program.hpp>
#include <apps/common/run_report.hpp>
#include <apps/common/script.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <cstdio>
#include <system_error>

namespace gpufs::apps {

namespace {

void complete(mapping_figures_options& o, bool is_emulated) {
  if (o.size.empty()) o.size = is_emulated ? "smoke" : "paper";
  fill_in(o.runs, o.size == "smoke" ? 1 : 5);
  check_option("--runs", o.runs, 1, 1000);
}

}  // namespace

void add_options(CLI::App& command, mapping_figures_options& o) {
  std::vector<std::string> names = mapping_figures();
  names.emplace_back("all");
  command
      .add_option("--figure", o.figures,
                  "adsm7 to adsm12, dragon3, dragon5, dragon6 or all; several may be given")
      ->required()
      ->check(CLI::IsMember(names));
  command.add_option("--out", o.out, "folder for FIGURE.csv, .png and .jsonl; made if need be")
      ->required();
  command.add_option("--dir,--folder", o.folder, "folder of the programs' files")
      ->capture_default_str();
  command.add_option("--size", o.size, "smoke or paper; default paper, emulated smoke")
      ->check(CLI::IsMember({"smoke", "paper"}));
  command.add_option("--runs", o.runs, "runs of each variant, in turns; default 5, of smoke 1");
}

int run_mapping_figures(mapping_figures_options o) {
  bool const is_emulated = device_to_run_on().kind == "emulated";
  complete(o, is_emulated);
  auto const program = required_program("gpufs-mapping");
  if (auto const error = make_folders(o.out)) throw std::system_error(error, o.out);
  auto const runs = runs_of(o.figures, {.is_smoke = o.size == "smoke",
                                        .is_emulated = is_emulated,
                                        .runs = static_cast<std::uint64_t>(o.runs),
                                        .folder = o.folder});
  std::vector<std::string> names;
  for (auto const& r : runs) names.push_back(r.results);
  figure_results all(o.out, names);
  unsigned failed = 0;
  for (auto const& r : runs) {
    auto const results = all.file_of(r.results);
    std::vector<std::string> command{program};
    command.insert(command.end(), r.arguments.begin(), r.arguments.end());
    for (auto const& word : {"--dir", o.folder.c_str(), "--json-to", results.c_str(), "--summary"})
      command.emplace_back(word);
    bool const is_good = run_command(command) == 0;
    all.end_run(r.results, is_good);
    if (is_good) continue;
    fmt::print("FAILED: {}\n", fmt::join(command, " "));
    std::fflush(stdout);
    ++failed;
  }
  if (!make_figures("mapping_figures.py", o.out, fmt::format("--size {}, {} runs", o.size, o.runs)))
    ++failed;
  fmt::print("{} of {} runs failed; figures are in {}\n", failed, runs.size(), o.out);
  return failed == 0 ? 0 : status_failed;
}

}  // namespace gpufs::apps
