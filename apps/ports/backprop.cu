// BACKPROP (Rodinia): one training step of a network with one hidden layer of 16 units. The first
// layer's weights are read twice, as the suite uploads them twice.
#include <gpufs/gpufs.hpp>

#include <apps/harness/parallel.hpp>
#include <apps/ports/all.hpp>

#include <array>
#include <cmath>
#include <mutex>

namespace gpufs::apps {

namespace {

constexpr unsigned hidden = 16;
constexpr unsigned width = hidden + 1;  // of a row of weights; column 0 is not used
constexpr float rate = 0.3f, momentum = 0.3f;

/// small.f32: the second layer's weights and last changes (column 0 is not used), and the target.
struct small_layer {
  float weight[width][2];
  float change[width][2];
  float target[2];
};

/// What the forward pass leaves behind.
struct activations {
  float hidden[width];  // hidden[0] is the bias, 1
  float output;
  float hidden_delta[width];
};

template <class T>
__host__ __device__ inline T sigmoid(T v) {
  return T{1} / (T{1} + std::exp(-v));
}

/// partials[block][j] = sum of w[k][j] x[k] over the block's share of the inputs. 16 x 16 threads:
/// x is the unit, y an input.
__global__ void sum_inputs(float const* x, float const* w, std::uint64_t count, float* partials) {
  __shared__ float sums[16][hidden];
  unsigned const j = threadIdx.x, y = threadIdx.y;
  float sum = 0;
  for (std::uint64_t k = blockIdx.x * std::uint64_t{16} + y; k < count;
       k += std::uint64_t{gridDim.x} * 16) {
    sum += w[k * width + j + 1] * x[k];
  }
  sums[y][j] = sum;
  __syncthreads();
  if (y != 0) return;
  for (unsigned i = 1; i < 16; ++i) sum += sums[i][j];
  partials[blockIdx.x * hidden + j] = sum;
}

/// The rest of the forward pass, the errors, and the second layer's new weights. One block of
/// `hidden` threads.
__global__ void finish_forward(float const* partials, unsigned blocks, small_layer const* in,
                               small_layer* out, activations* a) {
  unsigned const j = threadIdx.x + 1;
  float sum = 0;
  for (unsigned b = 0; b < blocks; ++b) sum += partials[b * hidden + threadIdx.x];
  a->hidden[j] = sigmoid(sum);
  if (j == 1) a->hidden[0] = 1;
  __syncthreads();
  if (j == 1) {
    float total = 0;
    for (unsigned i = 0; i < width; ++i) total += in->weight[i][1] * a->hidden[i];
    float const o = sigmoid(total);
    float const delta = o * (1 - o) * (in->target[1] - o);
    a->output = o;
    a->hidden_delta[0] = 0;
    *out = *in;
    for (unsigned i = 0; i < width; ++i) {
      if (i != 0) a->hidden_delta[i] = a->hidden[i] * (1 - a->hidden[i]) * delta * in->weight[i][1];
      float const change = rate * delta * a->hidden[i] + momentum * in->change[i][1];
      out->weight[i][1] = in->weight[i][1] + change;
      out->change[i][1] = change;
    }
  }
}

/// The first layer's new weights and changes.
__global__ void adjust_weights(float const* x, float const* w, float const* last,
                               activations const* a, std::uint64_t count, float* new_w,
                               float* new_change) {
  std::uint64_t const step = std::uint64_t{gridDim.x} * blockDim.x;
  for (std::uint64_t e = blockIdx.x * std::uint64_t{blockDim.x} + threadIdx.x; e < count * width;
       e += step) {
    unsigned const j = e % width;
    float const change =
        j == 0 ? last[e] : rate * a->hidden_delta[j] * x[e / width] + momentum * last[e];
    new_w[e] = j == 0 ? w[e] : w[e] + change;
    new_change[e] = change;
  }
}

__global__ void copy_hidden(activations const* a, float* to) {
  if (threadIdx.x < width) to[threadIdx.x] = a->hidden[threadIdx.x];
}

class backprop final : public port {
 public:
  explicit backprop(problem const& p)
      : problem_(p),
        count_(1 + p.pick(std::uint64_t{4096}, std::uint64_t{1} << 20, std::uint64_t{1} << 24)) {}

  std::vector<input_file> files() const override {
    // With the suite's data, uniform in [0, 1), every hidden unit saturates to exactly 1 and
    // nothing is learned.
    float const range = problem_.random ? 4 / std::sqrt(static_cast<float>(count_ - 1)) : 0;
    auto const spread = [&](std::uint64_t array, float half) {
      return [seed = array_seed(problem_.seed, array), half](std::uint64_t i) {
        return half * (2 * uniform(seed, i) - 1);
      };
    };
    auto const plain = [&](std::uint64_t array) {
      return
          [seed = array_seed(problem_.seed, array)](std::uint64_t i) { return uniform(seed, i); };
    };
    auto const x = [u = plain(0)](std::uint64_t i) { return i == 0 ? 1.0f : u(i); };
    std::uint64_t const row = width * sizeof(float), weights = count_ * row;
    auto const file = [&](char const* name, std::uint64_t bytes, std::uint64_t unit,
                          auto const& value) {
      return whole_file(name, bytes, unit, fill_elements<float>(value));
    };
    bool const random = problem_.random;
    auto const w2 = [random, u = plain(3), s = spread(3, 0.5f)](std::uint64_t i) {
      if (i >= 4 * width) return 0.1f;  // the target
      if (i >= 2 * width) return 0.0f;  // the last changes
      return random ? s(i) : u(i);
    };
    return {file("input.f32", count_ * sizeof(float), sizeof(float), x),
            random ? file("w1.f32", weights, 16 * row, spread(1, range))
                   : file("w1.f32", weights, 16 * row, plain(1)),
            random ? file("w1prev.f32", weights, 16 * row, spread(2, 1e-3f))
                   : file("w1prev.f32", weights, 16 * row, [](std::uint64_t) { return 0.0f; }),
            file("small.f32", sizeof(small_layer), sizeof(small_layer), w2)};
  }

  std::vector<unsigned> reads() const override { return {0, 1, 1, 2, 3}; }

  std::vector<output_array> outputs() const override {
    return {{"hidden", element::f32, width, {1e-5, 1e-4}},
            {"w1", element::f32, count_ * width, {1e-6, 1e-4}},
            {"w1change", element::f32, count_ * width, {1e-6, 1e-4}},
            {"small", element::f32, sizeof(small_layer) / sizeof(float), {1e-6, 1e-4}}};
  }

  void prepare() override {
    partials_ = buffer<float>(blocks * hidden);
    activations_ = buffer<activations>(1);
    load_kernel(sum_inputs);
    load_kernel(finish_forward);
    load_kernel(adjust_weights);
    load_kernel(copy_hidden);
  }

  void compute(device_arrays const& a) override {
    auto const* const x = a.input<float>(0);
    auto const* const w = a.input<float>(1);
    launch(sum_inputs, blocks, dim3(hidden, 16), x, w, count_, partials_.data());
    launch(finish_forward, 1, hidden, partials_.data(), blocks, a.input<small_layer>(3),
           a.output<small_layer>(3), activations_.data());
    launch(adjust_weights, blocks, 256, x, w, a.input<float>(2), activations_.data(), count_,
           a.output<float>(1), a.output<float>(2));
    launch(copy_hidden, 1, 32, activations_.data(), a.output<float>(0));
  }

  host_outputs reference(host_inputs const& in) const override {
    host_outputs out(outputs());
    auto const x = in.as<float>(0);
    auto const w = in.as<float>(1);
    auto const last = in.as<float>(2);
    small_layer const& small = in.as<small_layer>(3)[0];
    std::array<double, width> sums{};
    std::mutex mutex;
    parallel_ranges(count_, 1 << 14, [&](std::uint64_t begin, std::uint64_t end) {
      std::array<double, width> mine{};
      for (std::uint64_t k = begin; k < end; ++k) {
        for (unsigned j = 1; j < width; ++j)
          mine[j] += static_cast<double>(w[k * width + j]) * x[k];
      }
      std::lock_guard const lock(mutex);
      for (unsigned j = 1; j < width; ++j) sums[j] += mine[j];
    });
    std::array<double, width> h{1}, delta_h{};
    double total = small.weight[0][1];
    for (unsigned j = 1; j < width; ++j) {
      h[j] = sigmoid(sums[j]);
      total += small.weight[j][1] * h[j];
    }
    double const o = sigmoid(total), delta = o * (1 - o) * (small.target[1] - o);
    small_layer& adjusted = reinterpret_cast<small_layer&>(*out.bytes(3).data());
    adjusted = small;
    for (unsigned j = 0; j < width; ++j) {
      out.as<float>(0)[j] = static_cast<float>(h[j]);
      if (j != 0) delta_h[j] = h[j] * (1 - h[j]) * delta * small.weight[j][1];
      double const change =
          rate * delta * h[j] + momentum * static_cast<double>(small.change[j][1]);
      adjusted.weight[j][1] = static_cast<float>(small.weight[j][1] + change);
      adjusted.change[j][1] = static_cast<float>(change);
    }
    auto const new_w = out.as<float>(1);
    auto const new_change = out.as<float>(2);
    parallel_for(count_, 1 << 14, [&](std::uint64_t k) {
      for (unsigned j = 0; j < width; ++j) {
        std::uint64_t const e = k * width + j;
        double const change =
            j == 0 ? last[e] : rate * delta_h[j] * x[k] + momentum * static_cast<double>(last[e]);
        new_w[e] = j == 0 ? w[e] : static_cast<float>(w[e] + change);
        new_change[e] = static_cast<float>(change);
      }
    });
    return out;
  }

 private:
  static constexpr unsigned blocks = 1024;

  problem problem_;
  std::uint64_t count_;  // of inputs, with the bias
  buffer<float> partials_;
  buffer<activations> activations_;
};

}  // namespace

port_description const port_backprop{
    .name = "backprop",
    .summary =
        "Rodinia BACKPROP: a training step of a network whose inputs and weights are read from "
        "files",
    .blocks = 128,
    .fused = false,
    .real_input = {},
    .pictures = false,
    .extras = {},
    .make = [](problem const& p) -> std::unique_ptr<port> { return std::make_unique<backprop>(p); },
};

}  // namespace gpufs::apps
