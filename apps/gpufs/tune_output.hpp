// What the searches of `gpufs tune` have in common: the file they write, and the table of trials.
#pragma once

#include <host-daemon/base/json_string.hpp>

#include <apps/gpufs/tune_scores.hpp>
#include <apps/gpufs/tune_settings.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
}

namespace gpufs::apps {

struct tune_output {
  std::string out = "gpufs.toml";
  bool force = false;
};

/// Adds --out and --force.
void add_options(CLI::App& command, tune_output& o);

/// Fails before any time is spent if the result could not be written. `only_read`: files that are
/// never written to. Throws usage_error. Throws config_error if what the file has cannot be kept.
void check(tune_output const& o, std::vector<std::string> const& only_read = {});

/// The names of settings that a search varies.
using tuned_keys = std::vector<std::string_view>;

/// "3.212 to 3.300 in 3 runs".
[[nodiscard]] std::string spread_of(run_scores const& s);

/// "page_size=4K prefetch_size=auto".
template <class Config>
[[nodiscard]] std::string describe(Config const& c, tuned_keys const& keys) {
  std::string text;
  for (auto const key : keys) {
    text +=
        fmt::format("{}{}={}", text.empty() ? "" : " ", key, setting_named<Config>(key).print(c));
  }
  return text;
}

/// Prints trials in the given order: `*` before the best, `>` before the first of all, unless it is
/// the best.
template <class Config>
void print_trials(std::vector<basic_trial<Config>> const& trials,
                  std::vector<std::size_t> const& order, tuned_keys const& keys, std::size_t best) {
  fmt::print(" ");
  for (auto const key : keys) fmt::print(" {:>{}}", key, std::max<std::size_t>(key.size(), 13));
  fmt::print(" {:>9}  {}\n", "GB/s", "slowest to fastest run");
  for (auto const i : order) {
    auto const& t = trials[i];
    fmt::print("{}", i == best ? "*" : i == 0 ? ">" : " ");
    for (auto const key : keys) {
      fmt::print(" {:>{}}", setting_named<Config>(key).print(t.settings),
                 std::max<std::size_t>(key.size(), 13));
    }
    t.failure.empty() ? fmt::print(" {:>9.3f}  {}\n", t.score.median, spread_of(t.score))
                      : fmt::print("  {}\n", t.failure);
  }
}

/// Settings as text, what they replace, and whether gpufs has them already.
struct tuned_text {
  std::string mark;  ///< "# gpufs tune: ", the begin of comments
  std::string lines;
  tuned_keys keys;  ///< that were measured; other keys of a file stay
  bool is_in_use;   ///< gpufs has them without a file that tune writes
};

/// `best` as lines of a TOML file. `conditions`: a line each about what was measured.
template <class Config>
[[nodiscard]] tuned_text to_toml(Config const& best, tuned_keys const& keys,
                                 std::string_view command,
                                 std::vector<std::string> const& conditions) {
  tuned_text t{fmt::format("# {}: ", command), {}, {}, are_same(best, usual_settings(best))};
  for (auto const& line : conditions) t.lines += t.mark + line + '\n';
  for (auto const& s : table_of(best)) {
    if (s.key == "log" || s.key == "trace") continue;  // say nothing about speed
    t.keys.push_back(s.key);
    if (!s.former_key.empty()) t.keys.push_back(s.former_key);
    bool const was_tuned = std::ranges::find(keys, s.key) != keys.end();
    // What else was not left at its default belongs to what was measured.
    if (was_tuned || s.print(best) != s.print(Config{}))
      t.lines += fmt::format("{} = {}\n", s.key, daemon::json_string(s.print(best)));
  }
  return t;
}

/// "2026-01-31, NVIDIA H200": a line about what was measured.
[[nodiscard]] std::string when_and_where();

/// Writes the settings, unless they are in use, and says so. With --force, a file keeps comments
/// and the keys that are not among `t.keys`. It is replaced when the new one is whole and durable.
/// Throws std::system_error.
void write(tune_output const& o, tuned_text const& t);

}  // namespace gpufs::apps
