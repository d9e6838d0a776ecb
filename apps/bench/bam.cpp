#include <gpufs/device.hpp>

#include <apps/bench/bam.hpp>
#include <apps/bench/bam_plan.hpp>
#include <apps/bench/figure_script.hpp>
#include <apps/common/durable.hpp>
#include <apps/common/program.hpp>
#include <apps/common/run_report.hpp>
#include <apps/common/script.hpp>
#include <apps/common/temporary_folder.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <cstdio>
#include <system_error>

namespace gpufs::apps {

namespace {

void complete(bam_options& o, bool is_emulated) {
  if (o.size.empty()) o.size = is_emulated ? "smoke" : "paper";
  fill_in(o.runs, o.size == "smoke" ? 1 : 3);
  check_option("--runs", o.runs, 1, 1000);
}

}  // namespace

void add_options(CLI::App& command, bam_options& o) {
  std::vector<std::string> names = bam_figures();
  names.emplace_back("all");
  command
      .add_option("--figure", o.figures,
                  "4 to 12, 14, 15, vectoradd (section 5.4) or all; several may be given")
      ->required()
      ->check(CLI::IsMember(names));
  command.add_option("--out", o.out, "folder for bamN.csv, .png and .jsonl; made if need be")
      ->required();
  command.add_option("--dir,--folder", o.folder, "folder of the graph")->capture_default_str();
  command.add_option("--size", o.size, "smoke or paper; default paper, emulated smoke")
      ->check(CLI::IsMember({"smoke", "paper"}));
  command.add_option("--runs", o.runs, "runs of each variant, in turns; default 3, of smoke 1");
}

int run_bam(bam_options o) {
  bool const is_emulated = device_to_run_on().kind == "emulated";
  complete(o, is_emulated);
  if (auto const error = make_folders(o.out)) throw std::system_error(error, o.out);
  temporary_folder const graphs(o.folder, "--folder", "gpufs-bench-bam");
  auto const runs = runs_of(o.figures, {.is_smoke = o.size == "smoke",
                                        .is_emulated = is_emulated,
                                        .runs = static_cast<std::uint64_t>(o.runs),
                                        .folder = graphs.path()});
  std::vector<std::string> names;
  for (auto const& r : runs) {
    static_cast<void>(required_program(r.program));
    names.push_back(r.results);
  }
  figure_results all(o.out, names);
  unsigned failed = 0;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    auto const& r = runs[i];
    std::vector<std::string> command{required_program(r.program)};
    command.insert(command.end(), r.arguments.begin(), r.arguments.end());
    fmt::print("{} of {}: {} {}\n", i + 1, runs.size(), r.program, fmt::join(r.arguments, " "));
    std::fflush(stdout);
    bool const is_good = run_command(command, all.file_of(r.results)) == 0;
    all.end_run(r.results, is_good);
    if (is_good) continue;
    fmt::print("FAILED: {}\n", fmt::join(command, " "));
    ++failed;
  }
  if (!make_figures("bam_figures.py", o.out, fmt::format("--size {}, {} runs", o.size, o.runs)))
    ++failed;
  fmt::print("{} of {} runs failed; figures are in {}\n", failed, runs.size(), o.out);
  return failed == 0 ? 0 : status_failed;
}

}  // namespace gpufs::apps
