// The median of a few measurements.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace gpufs::apps {

/// Index of the median of `values` (the lower one of an even number), which must not be empty.
[[nodiscard]] inline std::size_t median_index(std::vector<double> const& values) {
  std::vector<std::size_t> order(values.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  auto const middle = order.begin() + static_cast<std::ptrdiff_t>((order.size() - 1) / 2);
  std::nth_element(order.begin(), middle, order.end(),
                   [&](std::size_t a, std::size_t b) { return values[a] < values[b]; });
  return *middle;
}

/// The median; of an even number of values the mean of the two in the middle. `values` must not be
/// empty.
[[nodiscard]] inline double median(std::vector<double> values) {
  auto const middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return values.size() % 2 != 0 ? *middle
                                : (*std::max_element(values.begin(), middle) + *middle) / 2;
}

}  // namespace gpufs::apps
