// Coordinate descent over settings. It tries the values of one setting while the others stay at the
// best values so far. It does not know files and devices; the caller measures.
#pragma once

#include <gpufs/config.hpp>

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

/// What the runs of a configuration gave. More is better.
struct run_scores {
  double median = 0;
  double low = 0, high = 0;
  unsigned runs = 0;
};

/// What a configuration gave.
struct trial {
  config settings;
  run_scores score;
  std::string failure;  ///< if not empty: why it gave nothing
};

struct search_result {
  /// in the order in which they were made, the first with the settings given; none twice
  std::vector<trial> trials;
  std::size_t best = 0;
  bool complete = false;  ///< false: time ran out before a whole round had brought nothing better
};

/// The setting of that name. It must exist.
[[nodiscard]] inline setting const& setting_named(std::string_view key) {
  for (auto const& s : settings()) {
    if (s.key == key) return s;
  }
  throw config_error(std::string(key) + ": no such setting");
}

/// Measures `start`, then goes round the coordinates, in their order, until a round brings nothing
/// better or `time_left()` says no. A value replaces the best one only if its median is better by
/// `margin` (0.02 = 2 %) and its slowest run is faster than the fastest one of the best value. So
/// noise moves nothing. `measure(settings, best)` is also told the best median so far; what it
/// throws for `start` is passed on, for others it becomes the trial's failure.
[[nodiscard]] inline search_result descend(
    config const& start, std::vector<coordinate> const& coordinates,
    std::function<run_scores(config const&, double best)> const& measure,
    std::function<bool()> const& time_left, double margin = 0.02) {
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
        if (!t.failure.empty() || t.score.median <= best.median * (1 + margin) ||
            t.score.low <= best.high)
          continue;
        r.best = r.trials.size() - 1;
        better = true;
      }
    }
  }
  r.complete = true;
  return r;
}

}  // namespace gpufs::apps
