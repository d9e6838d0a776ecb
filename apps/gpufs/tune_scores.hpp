// What runs of settings gave, and which settings are better.
#pragma once

#include <apps/common/median.hpp>

#include <algorithm>
#include <string>
#include <vector>

namespace gpufs::apps {

/// What the runs of a configuration gave. More is better.
struct run_scores {
  double median = 0;
  double low = 0, high = 0;
  unsigned runs = 0;
};

/// Of one run or more.
[[nodiscard]] inline run_scores scores_of(std::vector<double> const& all) {
  auto const [low, high] = std::ranges::minmax(all);
  return {all[median_index(all)], low, high, static_cast<unsigned>(all.size())};
}

/// A gain of less is none: 2 %.
inline constexpr double least_gain = 0.02;

/// Whether the median is better by least_gain, and the slowest run faster than the other's fastest
/// one. So noise is never better.
[[nodiscard]] inline bool is_better(run_scores const& a, run_scores const& than) {
  return a.median > than.median * (1 + least_gain) && a.low > than.high;
}

/// What a configuration gave.
template <class Config>
struct basic_trial {
  Config settings;
  run_scores score;
  std::string failure;  ///< if not empty: why it gave nothing
};

}  // namespace gpufs::apps
