// gpufs: looks at the machine (info), lists settings (settings), measures what gpufs does (bench),
// finds the settings for a file (tune), sums up traces (trace), tests NVMe controllers (nvme).
#include <gpufs/cli.hpp>
#include <gpufs/config.hpp>
#include <gpufs/mapping_cli.hpp>
#include <gpufs/owner/settings_file.hpp>

#include <apps/bench/apps_study.hpp>
#include <apps/bench/bam.hpp>
#include <apps/bench/bench.hpp>
#include <apps/bench/mapping.hpp>
#include <apps/bench/nvme.hpp>
#include <apps/bench/options.hpp>
#include <apps/bench/paper.hpp>
#include <apps/bench/patterns.hpp>
#include <apps/bench/peers.hpp>
#include <apps/bench/ratios.hpp>
#include <apps/bench/shared_costs.hpp>
#include <apps/bench/write.hpp>
#include <apps/common/nvme_spec.hpp>
#include <apps/common/program.hpp>
#include <apps/gpufs/info.hpp>
#include <apps/gpufs/nvme_command.hpp>
#include <apps/gpufs/settings_page.hpp>
#include <apps/gpufs/trace.hpp>
#include <apps/gpufs/tune.hpp>
#include <apps/gpufs/tune_mapping.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

namespace {

using namespace gpufs;
using namespace gpufs::apps;

/// The keys of the file of settings, if there is one.
std::set<std::string> keys_of_file(CLI::App const& command) {
  auto const* const named = command.get_option("--config");
  auto const file = named->count() != 0 ? std::filesystem::path(named->as<std::string>())
                                        : owner::usual_settings_file();
  std::set<std::string> keys;
  if (file.empty()) return keys;
  for (auto const& s : owner::read_settings_file(file)) keys.insert(s.key);
  return keys;
}

/// Where the value of a setting comes from, by its name of today or its former one.
template <class Config>
std::string origin(CLI::App const& command, std::set<std::string> const& file,
                   basic_setting<Config> const& s) {
  std::vector<basic_setting<Config>> names{s};
  if (!s.former_key.empty()) names.emplace_back(s).key = s.former_key;
  for (auto const& n : names)
    if (command.get_option(n.flag())->count() != 0) return n.flag();
  for (auto const& n : names)
    if (std::getenv(n.environment_name().c_str()) != nullptr) return n.environment_name();
  for (auto const& n : names)
    if (file.contains(std::string(n.key))) return "file";
  return "default";
}

int bench(bench_options& o, config settings) {
  validate(settings);
  complete(o);
  settings = with_seats(o, settings);
  if (o.is("rpc")) {
    print(o, settings, run_rpc_bench(o, settings));
    return 0;
  }
  if (o.is("write")) {
    write_result const r = run_write_bench(o, settings);
    print(o, settings, r);
    return r.verified || o.no_verify ? 0 : status_failed;
  }
  bench_result const r = run_bench(o, settings);
  print(o, settings, r);
  return r.verified || o.no_verify ? 0 : status_failed;
}

int compare(ratio_options& o, config const& settings) {
  validate(settings);
  complete(o, 5);
  print(o, settings, measure_ratios(o, settings));
  return 0;
}

/// Settings are for all of `bench`, but these options for its patterns alone.
constexpr char of_patterns[] =
    "is of bench's patterns, not of bench {}, whose options come behind that word";
/// Of settings.
constexpr char of_no_program[] =
    "bench {} runs programs that do not get it; they read their environment and gpufs.toml";

/// Throws usage_error naming one of the options that was given before a study's word, and why it is
/// none of the study's.
void require_not_given(std::vector<CLI::Option*> const& options, std::string const& study,
                       fmt::format_string<std::string const&> why) {
  for (auto const* option : options) {
    if (option->count() != 0)
      throw usage_error(fmt::format("{}: {}", option->get_name(), fmt::format(why, study)));
  }
}

int draw_figures(paper_options& o, config const& settings) {
  validate(settings);
  complete(o);
  run_paper(o, settings);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Files for GPU kernels: what this machine offers, and how fast it is", "gpufs");
  app.require_subcommand(1);

  CLI::App& info_command = *app.add_subcommand(
      "info", "device, host, which ways to read files work here and why others do not, settings");
  cli_settings const info_settings(info_command);
  cli_mapping_settings const info_mapping_settings(info_command);
  info_options what;
  info_command.add_flag("--json", what.json, "print one JSON object, with all settings");
  info_command.add_flag("--expert", what.expert,
                        "list the settings for tests and measurements, too");

  CLI::App& bench_command = *app.add_subcommand(
      "bench", "measures reads of a file from a kernel, verified and held against the hardware");
  cli_settings const bench_settings(bench_command);
  bench_options options;
  std::size_t const shared = bench_command.get_options().size();
  add_options(bench_command, options);
  auto const bench_all = bench_command.get_options();
  std::vector<CLI::Option*> const bench_shared(
      bench_all.begin(), bench_all.begin() + static_cast<std::ptrdiff_t>(shared));
  std::vector<CLI::Option*> const bench_own(bench_all.begin() + static_cast<std::ptrdiff_t>(shared),
                                            bench_all.end());
  CLI::App& ratios_command = *bench_command.add_subcommand(
      "ratios", "the same file read in several ways, and how gpufs compares with each");
  ratio_options ratio;
  add_options(ratios_command, ratio);
  CLI::App& paper_command = *bench_command.add_subcommand(
      "paper", "the figures of the GPUfs readahead paper, as CSV and PNG");
  paper_options paper;
  add_options(paper_command, paper);

  CLI::App& apps_command = *bench_command.add_subcommand(
      "apps",
      "the fourteen file-input applications: hand-written, with gpufs, "
      "and with our model of GPUfs");
  apps_options applications;
  add_options(apps_command, applications);

  CLI::App& patterns_command = *bench_command.add_subcommand(
      "patterns",
      "any access pattern with the default settings, each beside its hand-written equivalent");
  patterns_options patterns;
  add_options(patterns_command, patterns);

  CLI::App& peers_command = *bench_command.add_subcommand(
      "peers", "gpufs with the default settings beside what its users would take instead");
  peers_options peers;
  add_options(peers_command, peers);

  CLI::App& queues_command = *bench_command.add_subcommand(
      "nvme", "NVMe queue pairs that kernels drive, on software controllers of this process");
  nvme_bench_options queues;
  add_options(queues_command, queues);

  CLI::App& mapping_command = *bench_command.add_subcommand(
      "mapping", "the figures of the ADSM and DRAGON papers, by runs of gpufs-mapping");
  mapping_figures_options mapped;
  add_options(mapping_command, mapped);

  CLI::App& shared_command = *bench_command.add_subcommand(
      "shared", "what launches, faults and reads of shared memory cost");
  cli_mapping_settings const shared_settings(shared_command);
  shared_costs_options costs;
  add_options(shared_command, costs);

  CLI::App& bam_command = *bench_command.add_subcommand(
      "bam", "the figures of the BaM paper, by runs of the analytics programs");
  bam_options analytics;
  add_options(bam_command, analytics);

  CLI::App& tune_command = *app.add_subcommand(
      "tune",
      "finds the settings with which a file is read fastest, or with --mapping those of shared "
      "memory, writes gpufs.toml");
  cli_settings const tune_settings(tune_command);
  cli_mapping_settings const tune_mapping_settings(tune_command);
  tune_options tuning;
  add_options(tune_command, tuning);
  mapping_tune_options mapping_tuning;
  add_options(tune_command, mapping_tuning);

  CLI::App& trace_command = *app.add_subcommand(
      "trace", "sums up a trace: how often each byte was read, rates, errors, slowest requests");
  trace_options trace;
  add_options(trace_command, trace);

  CLI::App& settings_command =
      *app.add_subcommand("settings", "all settings, their defaults and what they mean");
  bool markdown = false;
  settings_command.add_flag("--markdown", markdown, "print the page docs/settings.md");

  CLI::App& nvme_command = *app.add_subcommand(
      "nvme", "drives an NVMe controller from a kernel: nothing is written to it");
  nvme_options drive;
  nvme_command.add_option("spec", drive.spec, nvme_spec_forms)->required();
  nvme_command.add_option("action", drive.action, "identify or selftest")->required();
  nvme_command.add_option("--threads", drive.threads, "threads of a software controller, 1..64")
      ->capture_default_str();

  return run_program(app, argc, argv, [&] {
    if (settings_command.parsed()) {
      fmt::print("{}", markdown ? settings_page() : settings_text());
      return 0;
    }
    if (trace_command.parsed()) return run_trace(trace);
    if (nvme_command.parsed()) {
      drive.threads_given = nvme_command.get_option("--threads")->count() != 0;
      return run_nvme(drive);
    }
    if (tune_command.parsed()) {
      require_fitting(tune_command, mapping_tuning);
      auto const is_given = [&](auto const& s) {
        return tune_command.get_option(s.flag())->count() != 0;
      };
      if (mapping_tuning.is_asked) {
        return run_mapping_tune(
            mapping_tuning, tuning.output, tune_mapping_settings.load(),
            [&](std::string_view key) { return is_given(setting_named<mapping_config>(key)); });
      }
      return run_tune(tuning, tune_settings.load(),
                      [&](std::string_view key) { return is_given(setting_named(key)); });
    }
    for (auto const* sub :
         {&ratios_command, &apps_command, &paper_command, &patterns_command, &peers_command,
          &queues_command, &mapping_command, &bam_command, &shared_command}) {
      if (sub->parsed()) require_not_given(bench_own, sub->get_name(), of_patterns);
    }
    for (auto const* sub : {&mapping_command, &bam_command, &shared_command})
      if (sub->parsed()) require_not_given(bench_shared, sub->get_name(), of_no_program);
    auto const study = [&] {
      config settings = bench_settings.load(study_defaults());
      validate(settings);
      return settings;
    };
    if (ratios_command.parsed()) return compare(ratio, study());
    if (apps_command.parsed()) return study_apps(applications, study());
    if (paper_command.parsed()) return draw_figures(paper, study());
    if (patterns_command.parsed()) return run_patterns(patterns, study());
    if (peers_command.parsed()) return run_peers(peers, study());
    if (mapping_command.parsed()) return run_mapping_figures(mapped);
    if (bam_command.parsed()) return run_bam(analytics);
    if (shared_command.parsed()) return run_shared_costs(costs, shared_settings.load());
    if (queues_command.parsed()) return run_nvme_bench(queues, study());
    if (bench_command.parsed()) return bench(options, bench_settings.load());
    auto const in_force = [&]<class Config>(Config const& c) {
      return settings_in_force<Config>{
          c, [&info_command, file = keys_of_file(info_command)](auto const& s) {
            return origin(info_command, file, s);
          }};
    };
    print_info(in_force(info_settings.load()), in_force(info_mapping_settings.load()), what);
    return 0;
  });
}
