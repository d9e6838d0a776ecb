// Coordinate descent over settings. It tries the values of one setting while the others stay at the
// best values so far. It does not know files and devices; the caller measures.
#pragma once

#include <gpufs/config.hpp>

#include <apps/gpufs/tune_scores.hpp>
#include <apps/gpufs/tune_settings.hpp>

#include <cstddef>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace gpufs::apps {

/// A setting that is varied.
struct coordinate {
  std::string_view key;  ///< of gpufs::settings()
  /// to try, given the others; those that validate() refuses are left out
  std::function<std::vector<std::string>(config const&)> values;
};

using trial = basic_trial<config>;

struct search_result {
  /// in the order in which they were made, the first with the settings given; none twice
  std::vector<trial> trials;
  std::size_t best = 0;
  bool complete = false;  ///< false: time ran out before a whole round had brought nothing better
};

/// Measures `start`, then goes round the coordinates, in their order, until a round brings nothing
/// better or `time_left()` says no. A value replaces the best one only if is_better() says so.
/// `measure(settings, best)` is also told the best median so far; what it throws for `start` is
/// passed on, for others it becomes the trial's failure.
[[nodiscard]] inline search_result descend(
    config const& start, std::vector<coordinate> const& coordinates,
    std::function<run_scores(config const&, double best)> const& measure,
    std::function<bool()> const& time_left) {
  search_result r;
  std::set<std::string> tried;
  auto const is_new = [&](config const& c) {
    std::string name;
    for (auto const& s : settings()) name += s.print(c) + ' ';
    return tried.insert(name).second;
  };
  is_new(start);
  r.trials.push_back({start, measure(start, 0), {}});
  for (bool better = true; better;) {
    better = false;
    for (auto const& along : coordinates) {
      setting const& varied = setting_named(along.key);
      for (auto const& value : along.values(r.trials[r.best].settings)) {
        trial t{r.trials[r.best].settings, {}, {}};
        try {
          varied.assign(t.settings, value, along.key);
          validate(t.settings);
        } catch (config_error const&) {
          continue;  // does not go with the other settings, or is not built
        }
        if (!is_new(t.settings)) continue;
        if (!time_left()) return r;
        run_scores const best = r.trials[r.best].score;
        try {
          t.score = measure(t.settings, best.median);
        } catch (std::exception const& e) {
          t.failure = e.what();
        }
        r.trials.push_back(t);
        if (!t.failure.empty() || !is_better(t.score, best)) continue;
        r.best = r.trials.size() - 1;
        better = true;
      }
    }
  }
  r.complete = true;
  return r;
}

}  // namespace gpufs::apps
