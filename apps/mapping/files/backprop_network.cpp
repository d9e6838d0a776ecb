#include <apps/harness/input_file.hpp>
#include <apps/harness/parallel.hpp>
#include <apps/mapping/files/backprop_network.hpp>

#include <cmath>
#include <mutex>

namespace gpufs::apps::workloads {

namespace {

double sigmoid(double v) { return 1 / (1 + std::exp(-v)); }

}  // namespace

unit_values<double> sum_partials(float const* partial, std::uint64_t count) {
  unit_values<double> sums{};
  for (std::uint64_t i = 0; i < count; i += hidden_units)
    for (unsigned unit = 0; unit < hidden_units; ++unit) sums[unit + 1] += partial[i + unit];
  return sums;
}

unit_values<float> learn(unit_values<double> sums, unit_values<float> const& bias, second_layer& w2,
                         second_layer& last, float target) {
  unit_values<double> hidden{1};
  double total = w2[0][1];
  for (unsigned j = 1; j < row_width; ++j) {
    hidden[j] = sigmoid(sums[j] + bias[j]);
    total += w2[j][1] * hidden[j];
  }
  double const output = sigmoid(total), delta = output * (1 - output) * (target - output);
  unit_values<float> errors{};
  for (unsigned j = 0; j < row_width; ++j) {
    if (j != 0) errors[j] = static_cast<float>(hidden[j] * (1 - hidden[j]) * delta * w2[j][1]);
    double const change = learning_rate * delta * hidden[j] + momentum * double{last[j][1]};
    w2[j][1] = static_cast<float>(w2[j][1] + change);
    last[j][1] = static_cast<float>(change);
  }
  return errors;
}

float backprop_network::value(network_array a, std::uint64_t i) const {
  // With weights in [0, 1) every hidden unit is 1, and nothing is learned.
  auto const around_zero = [&](std::uint64_t array, float half) {
    return half * (2 * uniform(array_seed(seed_, array), i) - 1);
  };
  switch (a) {
    case network_array::input: return i == 0 ? 1.0f : uniform(array_seed(seed_, 0), i);
    case network_array::target: return 0.1f;
    case network_array::w1: return around_zero(1, 4 / std::sqrt(static_cast<float>(inputs_)));
    case network_array::w2: return around_zero(3, 0.5f);
  }
  return 0;
}

void backprop_network::learn() {
  if (has_learned_) return;
  has_learned_ = true;
  unit_values<double> sums{};
  std::mutex mutex;
  parallel_ranges(inputs_ + 1, 1 << 14, [&](std::uint64_t begin, std::uint64_t end) {
    unit_values<double> mine{};
    for (std::uint64_t k = begin; k < end; ++k) {
      double const x = value(network_array::input, k);
      for (unsigned j = 1; j < row_width; ++j)
        mine[j] += value(network_array::w1, k * row_width + j) * x;
    }
    std::lock_guard const lock(mutex);
    for (unsigned j = 1; j < row_width; ++j) sums[j] += mine[j];
  });
  unit_values<double> hidden{1};
  auto const w2 = [&](unsigned j) { return double{value(network_array::w2, 2 * j + 1)}; };
  double total = w2(0);
  for (unsigned j = 1; j < row_width; ++j) {
    hidden[j] = sigmoid(sums[j]);
    total += w2(j) * hidden[j];
  }
  double const output = sigmoid(total);
  double const error = output * (1 - output) * (value(network_array::target, 1) - output);
  for (unsigned j = 0; j < row_width; ++j) {
    if (j != 0) delta_[j] = hidden[j] * (1 - hidden[j]) * error * w2(j);
    new_w2_[2 * j] = value(network_array::w2, 2 * j);
    new_w2_[2 * j + 1] = w2(j) + learning_rate * error * hidden[j];
  }
}

double backprop_network::new_w1(std::uint64_t i) const {
  unsigned const j = i % row_width;
  double const old = value(network_array::w1, i);
  return j == 0 ? old
                : old + learning_rate * delta_[j] * value(network_array::input, i / row_width);
}

}  // namespace gpufs::apps::workloads
