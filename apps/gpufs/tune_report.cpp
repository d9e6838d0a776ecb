// The output of `gpufs tune FILE`: the table of trials, and the settings as TOML.
#include <gpufs/device.hpp>

#include <apps/common/run_report.hpp>
#include <apps/gpufs/tune.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace gpufs::apps {

namespace {

std::string how_read(tune_options const& o, tune_result const& r) {
  return fmt::format("{}, requests of {}, {} of {} bytes, {}", o.pattern, o.request, r.bytes,
                     r.file_bytes, o.cold ? "not in the OS page cache" : "in the OS page cache");
}

}  // namespace

void print(tune_options const& o, tune_result const& r) {
  auto const& trials = r.found.trials;
  std::vector<std::size_t> order(trials.size());
  std::iota(order.begin(), order.end(), std::size_t(0));
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
    return trials[a].score.median > trials[b].score.median;
  });
  fmt::print("gpufs tune {} on {}: {}\n\n", o.file, current_device().name, how_read(o, r));
  print_trials(trials, order, keys_tuned(), r.found.best);
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

tuned_keys const& keys_tuned() {
  static tuned_keys const keys{"page_size", "prefetch_size", "io_path", "host_threads"};
  return keys;
}

tuned_text to_toml(tune_options const& o, tune_result const& r) {
  trial const& best = r.found.trials[r.found.best];
  return to_toml(best.settings, keys_tuned(), "gpufs tune",
                 {when_and_where(), how_read(o, r),
                  fmt::format("{:.3f} GB/s, {}", best.score.median, spread_of(best.score))});
}

}  // namespace gpufs::apps
