// Settings against each other, in turns. It does not know devices; the caller measures.
#pragma once

#include <apps/gpufs/tune_scores.hpp>

#include <cstddef>
#include <exception>
#include <functional>
#include <vector>

namespace gpufs::apps {

template <class Config>
struct sweep_result {
  std::vector<basic_trial<Config>> trials;  ///< in the order of the candidates
  std::size_t best = 0;
};

/// Runs the candidates in turns: each round has one run of each. `speed(settings)` makes a run;
/// more is better. What it throws for the first candidate is passed on, for others it becomes the
/// trial's failure. The best has the highest median of those that are better than the first one, as
/// is_better() says. If there are none, it is the first one.
template <class Config>
[[nodiscard]] sweep_result<Config> sweep(std::vector<Config> const& candidates, unsigned rounds,
                                         std::function<double(Config const&)> const& speed) {
  sweep_result<Config> r;
  std::vector<std::vector<double>> runs(candidates.size());
  for (auto const& c : candidates) r.trials.push_back({c, {}, {}});
  for (unsigned round = 0; round < rounds; ++round) {
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      if (!r.trials[i].failure.empty()) continue;
      try {
        runs[i].push_back(speed(candidates[i]));
      } catch (std::exception const& e) {
        if (i == 0) throw;
        r.trials[i].failure = e.what();
      }
    }
  }
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    auto& t = r.trials[i];
    if (!t.failure.empty()) continue;
    t.score = scores_of(runs[i]);
    if (is_better(t.score, r.trials.front().score) &&
        (r.best == 0 || t.score.median > r.trials[r.best].score.median))
      r.best = i;
  }
  return r;
}

}  // namespace gpufs::apps
