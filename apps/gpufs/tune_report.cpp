// The output of `gpufs tune`: the table of trials, and the settings as TOML.
#include <gpufs/device.hpp>

#include <apps/common/run_report.hpp>
#include <apps/gpufs/tune.hpp>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <numeric>

namespace gpufs::apps {

namespace {

constexpr std::string_view tuned[] = {"page_size", "prefetch_size", "io_path", "host_threads"};

std::string how_read(tune_options const& o, tune_result const& r) {
  return fmt::format("{}, requests of {}, {} of {} bytes, {}", o.pattern, o.request, r.bytes,
                     r.file_bytes, o.cold ? "not in the OS page cache" : "in the OS page cache");
}

std::string spread_of(run_scores const& s) {
  if (s.runs == 1) return "in one run";
  return fmt::format("{:.3f} to {:.3f} in {} runs", s.low, s.high, s.runs);
}

}  // namespace

void print(tune_options const& o, tune_result const& r) {
  auto const& trials = r.found.trials;
  std::vector<std::size_t> order(trials.size());
  std::iota(order.begin(), order.end(), std::size_t(0));
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
    return trials[a].score.median > trials[b].score.median;
  });
  fmt::print("gpufs tune {} on {}: {}\n\n ", o.file, current_device().name, how_read(o, r));
  for (auto const key : tuned) fmt::print(" {:>13}", key);
  fmt::print(" {:>9}  {}\n", "GB/s", "slowest to fastest run");
  for (auto const i : order) {
    trial const& t = trials[i];
    fmt::print("{}", i == r.found.best ? "*" : i == 0 ? ">" : " ");
    for (auto const key : tuned) fmt::print(" {:>13}", setting_named(key).print(t.settings));
    t.failure.empty() ? fmt::print(" {:>9.3f}  {}\n", t.score.median, spread_of(t.score))
                      : fmt::print("  {}\n", t.failure);
  }
  trial const& best = trials[r.found.best];
  double const start = trials.front().score.median;
  fmt::print("\n* the best{}; bytes verified: {} requests equal what pread gives\n",
             r.found.best == 0
                 ? ", with which the search began"
                 : fmt::format(", {:.2f} times what > gives, with which the search began",
                               best.score.median / start),
             r.verified_requests);
  fmt::print("{}: {:.0f} s, trials: {}\n",
             r.found.complete ? "no setting gains 2 % and more than the noise by itself"
                              : "the time was up before all was tried",
             r.seconds, trials.size());
}

std::string to_toml(tune_options const& o, tune_result const& r) {
  trial const& best = r.found.trials[r.found.best];
  std::string text = fmt::format("# gpufs tune, {:%Y-%m-%d}, {}\n# {}\n# {:.3f} GB/s, {}\n",
                                 fmt::gmtime(std::time(nullptr)), current_device().name,
                                 how_read(o, r), best.score.median, spread_of(best.score));
  config const defaults;
  for (auto const& s : settings()) {
    if (s.key == "log" || s.key == "trace") continue;  // say nothing about speed
    bool const was_tuned = std::ranges::find(tuned, s.key) != std::end(tuned);
    // What else was not left at its default belongs to what was measured.
    if (was_tuned || s.print(best.settings) != s.print(defaults))
      text += fmt::format("{} = \"{}\"\n", s.key, s.print(best.settings));
  }
  return text;
}

}  // namespace gpufs::apps
