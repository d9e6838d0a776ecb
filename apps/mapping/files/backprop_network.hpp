// backprop: the network's arrays, what the CPU learns, and the reference.
#pragma once

#include <array>
#include <cstdint>

namespace gpufs::apps::workloads {

inline constexpr unsigned hidden_units = 16;
inline constexpr unsigned row_width = hidden_units + 1;  ///< of a row of weights; 0 is not used
inline constexpr std::uint64_t row_bytes = row_width * sizeof(float);
inline constexpr float learning_rate = 0.3f, momentum = 0.3f;

/// Of each hidden unit, behind the bias.
template <class T>
using unit_values = std::array<T, row_width>;

/// Weights of the second layer, or their last changes. Column 0 is not used.
using second_layer = std::array<std::array<float, 2>, row_width>;

/// What the partial sums of all blocks add up to. [0] is not used.
[[nodiscard]] unit_values<double> sum_partials(float const* partial, std::uint64_t count);

/// The second layer's part of a training step. `bias`: row 0 of the first layer's weights. Changes
/// `w2` and `last`. Returns the errors of the hidden units.
[[nodiscard]] unit_values<float> learn(unit_values<double> sums, unit_values<float> const& bias,
                                       second_layer& w2, second_layer& last, float target);

enum class network_array { input, target, w1, w2 };

/// A network before and after a training step, by the CPU and in double.
class backprop_network {
 public:
  backprop_network(std::uint64_t inputs, std::uint64_t seed) : inputs_(inputs), seed_(seed) {}

  /// Without the bias, which is input 0.
  [[nodiscard]] std::uint64_t inputs() const { return inputs_; }
  /// Element `i` of an array at first.
  [[nodiscard]] float value(network_array a, std::uint64_t i) const;

  /// Makes the training step.
  void learn();
  [[nodiscard]] double new_w1(std::uint64_t i) const;
  [[nodiscard]] double new_w2(std::uint64_t i) const { return new_w2_[i]; }

 private:
  std::uint64_t inputs_, seed_;
  unit_values<double> delta_{};
  std::array<double, 2 * row_width> new_w2_{};
  bool has_learned_ = false;
};

}  // namespace gpufs::apps::workloads
