#include <apps/common/print_error.hpp>
#include <apps/common/program.hpp>
#include <apps/common/progress.hpp>
#include <apps/common/run_report.hpp>
#include <apps/common/seconds_since.hpp>
#include <apps/gpufs/machine.hpp>
#include <apps/gpufs/tune_mapping.hpp>
#include <apps/mapping/all.hpp>
#include <apps/mapping/runs.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <stdexcept>
#include <utility>

namespace gpufs::apps {

namespace {

constexpr std::uint64_t kibi = 1 << 10, mebi = 1 << 20, gibi = 1 << 30;
constexpr std::uint64_t least_block = 4 * kibi, most_block = 32 * mebi;
// A rolling size of 1 is none of them: two vectors would evict each other's block at each element.
constexpr std::array rolling_sizes{2, 4, 8, 16, 32, 64, 128, 256};

/// A setting that is swept, and its values.
struct swept_setting {
  std::string_view key;
  std::vector<std::string> values;
};

/// Blocks larger than a vector are as large as it.
std::vector<swept_setting> swept_settings(std::uint64_t bytes) {
  std::vector<std::string> blocks{"auto"}, sizes{"auto"};
  for (auto block = least_block; block <= std::min(bytes, most_block); block *= 2)
    blocks.push_back(format_size(block));
  for (auto const size : rolling_sizes) sizes.push_back(std::to_string(size));
  return {{"coherence_block", blocks}, {"rolling_size", sizes}};
}

void require_sweepable(mapping_config const& c) {
  if (c.protocol != coherence_protocol::rolling) {
    throw usage_error(
        fmt::format("protocol={}: has neither blocks nor a rolling size to sweep, must be rolling",
                    setting_named<mapping_config>("protocol").print(c)));
  }
  if (c.rolling_size == 1) {
    throw usage_error(
        "rolling_size=1: two vectors evict each other's block at each element, must be auto or at "
        "least 2");
  }
}

/// Fails before the vectors, and the check of their sum, take all memory of the machine.
void require_room(std::uint64_t bytes) {
  std::uint64_t const needed = 2 * 3 * bytes, memory = look_at_host().memory_bytes;
  if (needed <= memory) return;
  throw usage_error(
      fmt::format("--size={}: three vectors and the check of their sum take {} of host memory, "
                  "this machine has {}",
                  format_size(bytes), format_size(needed), format_size(memory)));
}

/// Vector addition on shared memory. The result of each run is verified.
class vector_additions {
 public:
  explicit vector_additions(std::uint64_t bytes) : bytes_(bytes) {
    of_.numbers = {{"n", bytes / sizeof(float)}, {"stride", 1}};
  }

  /// Returns gigabytes per second, of all three vectors. Throws as shared_memory, and
  /// std::runtime_error if the result was wrong.
  double run(mapping_config const& c) {
    of_.memory = c;
    workloads::way const how{workloads::variant::shared, c.protocol, c.coherence_block,
                             c.rolling_size};
    auto const r = workloads::run_once(workloads::workload_vecadd, of_, how);
    ++runs_;
    workloads::checks found;
    r.program->check(*r.in, found);
    if (found.passed()) return gigabytes_per_second(3 * bytes_, r.result.seconds);
    wrong_ = fmt::format("{}: {}", describe(c, keys_swept()), fmt::join(found.failures(), "; "));
    throw std::runtime_error(wrong_);
  }

  [[nodiscard]] std::uint64_t runs() const { return runs_; }
  /// What a run got wrong, if one did.
  [[nodiscard]] std::string const& wrong() const { return wrong_; }

 private:
  std::uint64_t bytes_;
  workloads::setup of_;
  std::uint64_t runs_ = 0;
  std::string wrong_;
};

/// `best`, and the settings that differ from it in this one.
std::vector<mapping_config> candidates(mapping_config const& best, swept_setting const& along) {
  std::vector<mapping_config> all{best};
  for (auto const& value : along.values) {
    mapping_config c = best;
    setting_named<mapping_config>(along.key).assign(c, value, along.key);
    if (!are_same(c, best)) all.push_back(c);
  }
  return all;
}

/// Compares settings with the first of them, and keeps the best. It may take minutes, so it says
/// that it has begun: not everybody sees the progress bar.
void compare(std::string what, std::vector<mapping_config> const& all, unsigned rounds,
             vector_additions& program, mapping_tune_result& r) {
  print_error("gpufs tune: {}: {} settings, {} runs each\n", what, all.size(), rounds);
  progress shown("", rounds * all.size());
  auto found = sweep<mapping_config>(all, rounds, [&](mapping_config const& c) {
    shown.say(describe(c, keys_swept()));
    shown.advance(1);
    return program.run(c);
  });
  auto const& best = found.trials[found.best];
  r.best = best.settings;
  r.score = best.score;
  r.gain = best.score.median / found.trials.front().score.median;
  r.sweeps.push_back({std::move(what), std::move(found)});
}

void search(std::vector<swept_setting> const& along, unsigned rounds, vector_additions& program,
            mapping_tune_result& r) {
  r.best = r.start;
  for (auto const& s : along)
    compare(std::string(s.key), candidates(r.best, s), rounds, program, r);
  // Of many settings that are alike, one seems better by chance. It has to be so twice.
  if (!are_same(r.best, r.start)) compare("once more", {r.start, r.best}, rounds, program, r);
  if (along.empty()) compare("all settings are given", {r.start}, rounds, program, r);
}

}  // namespace

void add_options(CLI::App& command, mapping_tune_options& o) {
  constexpr char const* group = "Shared memory";
  command.footer(
      command.get_footer() +
      "\n\nWith --mapping, coherence_block and then rolling_size of shared memory are tried. The "
      "CPU writes two vectors, a kernel\n"
      "adds them, and the CPU reads the sum. Each round has a run of every value, next to the "
      "settings with which the search\n"
      "began. Every sum is verified. A value is better if it gains 2 % and its slowest run is\n"
      "faster than their fastest one.");
  command
      .add_flag("--mapping", o.is_asked,
                "find coherence_block and rolling_size of shared memory instead: no FILE")
      ->group(group);
  command
      .add_option("--size", o.size,
                  "--mapping: bytes of each of three vectors, 64K to 64G; default 256M, emulated "
                  "1M")
      ->group(group);
  command
      .add_option("--rounds", o.rounds,
                  "--mapping: rounds, each with a run of all settings; 3 to 1000")
      ->capture_default_str()
      ->group(group);
}

void require_fitting(CLI::App const& command, mapping_tune_options const& o) {
  constexpr std::string_view of_both[] = {"--mapping", "--out", "--force", "--config"};
  for (auto const* const option : command.get_options()) {
    auto const name = option->get_name();
    if (option->count() == 0 || std::ranges::find(of_both, name) != std::end(of_both)) continue;
    bool const is_of_mapping =
        name == "--size" || name == "--rounds" ||
        std::ranges::any_of(mapping_settings(), [&](auto const& s) { return s.flag() == name; });
    if (is_of_mapping == o.is_asked) continue;
    throw usage_error(o.is_asked ? name + ": is of gpufs tune FILE, not of gpufs tune --mapping"
                                 : name + ": is of gpufs tune --mapping, not of gpufs tune FILE");
  }
}

int run_mapping_tune(mapping_tune_options const& o, tune_output const& output,
                     mapping_config const& start,
                     std::function<bool(std::string_view)> const& fixed) {
  auto const begun = std::chrono::steady_clock::now();
  check_option("--rounds", o.rounds, 3, 1000);
  validate(start);
  require_sweepable(start);
  bool const is_emulated = device_to_run_on().kind == "emulated";
  mapping_tune_result r;
  r.bytes = o.size.empty() ? (is_emulated ? mebi : 256 * mebi)
                           : size_option("--size", o.size, 64 * kibi, 64 * gibi);
  r.bytes -= r.bytes % sizeof(float);
  require_room(r.bytes);
  check(output);

  vector_additions program(r.bytes);
  static_cast<void>(program.run(start));  // the first run of a process takes longer
  r.start = start;
  auto along = swept_settings(r.bytes);
  std::erase_if(along, [&](swept_setting const& s) { return fixed(s.key); });
  search(along, static_cast<unsigned>(o.rounds), program, r);
  r.runs = program.runs();
  r.seconds = seconds_since(begun);
  print(o, r);
  if (!program.wrong().empty()) throw std::runtime_error(program.wrong());
  write(output, to_toml(o, r));
  return 0;
}

}  // namespace gpufs::apps
