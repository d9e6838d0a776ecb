// binomialOptions (DRAGON): prices of options by backward steps through a tree. One record in, one
// price out, and millions of operations between them.
#include <gpufs/device.hpp>

#include <apps/common/program.hpp>
#include <apps/harness/input_file.hpp>
#include <apps/mapping/all.hpp>
#include <apps/mapping/files/file_arrays.hpp>
#include <apps/mapping/files/file_program.hpp>

#include <algorithm>
#include <cmath>

#include <fcntl.h>

namespace gpufs::apps::workloads {

namespace {

enum : unsigned { object_options, object_values };

constexpr unsigned most_steps = 2048, most_per_thread = 16;
constexpr float rate = 0.06f, volatility = 0.10f;

/// A record of the file.
struct option_data {
  float price, strike;
  float step;      ///< of the logarithm of the price
  float up, down;  ///< discounted probabilities of a step
};
static_assert(sizeof(option_data) == 20);

/// What the option is worth at leaf `i` of the tree.
template <class T>
__host__ __device__ inline T leaf(option_data const& o, unsigned i, unsigned steps) {
  T const power = T(o.step) * T(2 * static_cast<int>(i) - static_cast<int>(steps));
  T const gain = T(o.price) * std::exp(power) - T(o.strike);
  return gain > T(0) ? gain : T(0);
}

/// A block values an option, and then another one. Each thread holds so many nodes of a level. It
/// takes as many of its neighbour's, and goes that many levels back without it.
template <unsigned per_thread>
__global__ void __launch_bounds__(most_steps / most_per_thread)
    value_trees(option_data const* options, float* values, std::uint64_t n, unsigned steps) {
  // A block with fewer nodes for each thread is a warp.
  constexpr unsigned threads = per_thread < most_per_thread ? 32 : most_steps / most_per_thread;
  __shared__ float level[(threads + 1) * per_thread];
  unsigned const begin = threadIdx.x * per_thread;
  for (std::uint64_t which = blockIdx.x; which < n; which += gridDim.x) {
    option_data const o = options[which];
    for (unsigned k = 0; k < per_thread; ++k) level[begin + k] = leaf<float>(o, begin + k, steps);
    // The last leaf. Behind it lies what no result depends on.
    if (threadIdx.x < per_thread)
      level[steps + threadIdx.x] = threadIdx.x == 0 ? leaf<float>(o, steps, steps) : 0;
    float held[2 * per_thread];
    for (unsigned done = 0; done < steps; done += per_thread) {
      __syncthreads();
#pragma unroll
      for (unsigned k = 0; k < 2 * per_thread; ++k) held[k] = level[begin + k];
      __syncthreads();
#pragma unroll
      for (unsigned s = 0; s < per_thread; ++s) {
#pragma unroll
        for (unsigned k = 0; k < 2 * per_thread - 1; ++k)
          if (k < 2 * per_thread - 1 - s) held[k] = o.up * held[k + 1] + o.down * held[k];
      }
#pragma unroll
      for (unsigned k = 0; k < per_thread; ++k) level[begin + k] = held[k];
    }
    if (threadIdx.x == 0) values[which] = held[0];
    __syncthreads();
  }
}

class binomial_options final : public file_workload {
 public:
  explicit binomial_options(setup const& s)
      : seed_(s.seed), n_(s["footprint"] / 24), steps_(static_cast<unsigned>(s["steps"])) {
    if ((steps_ & (steps_ - 1)) != 0)
      throw usage_error("steps=" + std::to_string(steps_) +
                        ": must be a power of two from 64 to 2048");
    objects_ = {{.name = "optionData",
                 .bytes = n_ * sizeof(option_data),
                 .fill = fill_records<option_data>([this](std::uint64_t i) { return option(i); })},
                {.name = "callValue", .bytes = 4 * n_, .use = object_use::output}};
    rules_ = {{.object = object_values,
               .type = element::f32,
               .absolute = 1e-3,
               .relative = 1e-4,
               .group = 8,
               .most_groups = 512}};
  }

  std::vector<file_object> const& objects() const override { return objects_; }
  std::vector<result_rule> const& rules() const override { return rules_; }

  void compute(file_arrays& a) override {
    switch (std::max(steps_ / most_per_thread, 32u) == 32 ? steps_ / 32 : most_per_thread) {
      case 2: return value<2>(a);
      case 4: return value<4>(a);
      case 8: return value<8>(a);
      default: return value<16>(a);
    }
  }

  void reference(unsigned, std::uint64_t first, std::span<double> to) const override {
    std::vector<double> level(steps_ + 1);
    for (std::uint64_t i = 0; i < to.size(); ++i) {
      option_data const o = option(first + i);
      for (unsigned k = 0; k <= steps_; ++k) level[k] = leaf<double>(o, k, steps_);
      double const up = o.up, down = o.down;
      for (unsigned left = steps_; left != 0; --left)
        for (unsigned k = 0; k < left; ++k) level[k] = up * level[k + 1] + down * level[k];
      to[i] = level[0];
    }
  }

  /// The closed form of Black and Scholes, for the first options.
  void check_more(work_files const& files, checks& c) const override {
    std::uint64_t const count = std::min<std::uint64_t>(n_, 1 << 16);
    std::vector<float> values(count);
    files.read(object_values, 0, values.data(), 4 * count);
    double difference = 0, sum = 0;
    for (std::uint64_t i = 0; i < count; ++i) {
      double const wanted = closed_form(i);
      difference += std::abs(values[i] - wanted);
      sum += std::abs(wanted);
    }
    double const bound = 5e-4 * most_steps / steps_;
    if (count < 32) return;  // errors of a few do not even out
    c.expect(difference <= bound * sum, "the closed form: the prices differ by " +
                                            std::to_string(difference / sum) + " of their sum");
  }

  void check_counters(mapping_statistics const& got, checks& c) const override {
    check_streamed(got, {.read = 20 * n_, .written = 4 * n_}, c);
  }

 private:
  template <unsigned per_thread>
  void value(file_arrays& a) const {
    auto const blocks = static_cast<unsigned>(std::min<std::uint64_t>(n_, 1 << 22));
    launch_on(a, {{object_options, access::read}, {object_values, access::write}},
              value_trees<per_thread>, blocks, steps_ / per_thread,
              a.of<option_data>(object_options), a.of<float>(object_values), n_, steps_);
  }

  struct drawn {
    float price, strike, years;
  };
  [[nodiscard]] drawn draw(std::uint64_t i) const {
    auto const u = [&](std::uint64_t array) { return uniform(array_seed(seed_, array), i); };
    return {5.0f + 25.0f * u(0), 1.0f + 99.0f * u(1), 0.25f + 9.75f * u(2)};
  }

  [[nodiscard]] option_data option(std::uint64_t i) const {
    drawn const d = draw(i);
    float const time = d.years / static_cast<float>(steps_);
    float const step = volatility * std::sqrt(time);
    float const up = std::exp(step), down = std::exp(-step);
    float const rises = (std::exp(rate * time) - down) / (up - down);
    float const discount = std::exp(-rate * time);
    return {d.price, d.strike, step, rises * discount, (1.0f - rises) * discount};
  }

  [[nodiscard]] double closed_form(std::uint64_t i) const {
    drawn const d = draw(i);
    double const v = volatility, r = rate, t = d.years, root = v * std::sqrt(t);
    double const d1 = (std::log(double{d.price} / d.strike) + (r + v * v / 2) * t) / root;
    auto const normal = [](double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); };
    return d.price * normal(d1) - d.strike * std::exp(-r * t) * normal(d1 - root);
  }

  std::uint64_t seed_, n_;
  unsigned steps_;
  std::vector<file_object> objects_;
  std::vector<result_rule> rules_;
};

}  // namespace

description const workload_binomialOptions = {
    .name = "binomialOptions",
    .what = "prices of options by a binomial tree, a block for each",
    .parameters = {{"footprint", 768, 4ull << 30, "bytes of all files", 24, 1ull << 48},
                   {"steps", 2048, 64, "levels of a tree", 64, most_steps}},
    .make = make_file_program<binomial_options>,
    .has_files = true,
};

}  // namespace gpufs::apps::workloads
