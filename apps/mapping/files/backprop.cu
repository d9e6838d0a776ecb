// backprop (DRAGON, from Rodinia): a training step of a network with 16 hidden units. The CPU does
// the second layer, between the kernels of the first one.
#include <gpufs/device.hpp>

#include <apps/harness/input_file.hpp>
#include <apps/mapping/all.hpp>
#include <apps/mapping/files/backprop_network.hpp>
#include <apps/mapping/files/file_arrays.hpp>
#include <apps/mapping/files/file_program.hpp>

#include <algorithm>
#include <array>
#include <cstring>

namespace gpufs::apps::workloads {

namespace {

enum : unsigned {
  object_input,
  object_target,
  object_w1,
  object_w2,
  object_w1prev,
  object_w2prev,
  object_partial,
  object_delta
};

/// partial[block][unit]: what the block's 16 inputs add to the unit. Input 0, the bias, has no part
/// in it. 16 x 16 threads, x is the unit.
__global__ void __launch_bounds__(256)
    sum_inputs(float const* input, float const* w1, float* partial) {
  __shared__ float terms[16][hidden_units];
  unsigned const unit = threadIdx.x, y = threadIdx.y;
  std::uint64_t const k = blockIdx.x * std::uint64_t{16} + y + 1;
  terms[y][unit] = w1[k * row_width + unit + 1] * input[k];
  for (unsigned half = 8; half != 0; half /= 2) {
    __syncthreads();
    if (y < half) terms[y][unit] += terms[y + half][unit];
  }
  if (y == 0) partial[blockIdx.x * std::uint64_t{hidden_units} + unit] = terms[0][unit];
}

/// The first layer's new weights and last changes. A thread for each.
__global__ void __launch_bounds__(256)
    adjust_weights(float const* input, float const* delta, float* w1, float* w1prev,
                   std::uint64_t count) {
  std::uint64_t const e = blockIdx.x * std::uint64_t{blockDim.x} + threadIdx.x;
  unsigned const j = e % row_width;
  if (e >= count || j == 0) return;
  float const change = learning_rate * delta[j] * input[e / row_width] + momentum * w1prev[e];
  w1[e] += change;
  w1prev[e] = change;
}

class backprop final : public file_workload {
 public:
  explicit backprop(setup const& s)
      : network_(s["footprint"] / 136 / 16 * 16, s.seed),
        n_(network_.inputs()),
        is_declared_(s.is_declared) {
    std::uint64_t const weights = row_bytes * (n_ + 1);
    auto const values = [this](network_array a) {
      return fill_elements<float>([this, a](std::uint64_t i) { return network_.value(a, i); });
    };
    objects_ = {
        {.name = "input", .bytes = 4 * (n_ + 1), .fill = values(network_array::input)},
        {.name = "target", .bytes = sizeof(float) * 2, .fill = values(network_array::target)},
        {.name = "w1",
         .bytes = weights,
         .use = object_use::updated,
         .fill = values(network_array::w1),
         .block = usual_block(weights)},  // named, as counters depend on it
        {.name = "w2",
         .bytes = sizeof(second_layer),
         .use = object_use::updated,
         .fill = values(network_array::w2)},
        {.name = "w1prev", .bytes = weights, .use = object_use::scratch},
        {.name = "w2prev", .bytes = sizeof(second_layer), .use = object_use::scratch},
        {.name = "partial", .bytes = 4 * n_, .use = object_use::scratch},
        {.name = "delta", .bytes = row_bytes, .use = object_use::scratch}};
    rules_ = {{.object = object_w1,
               .type = element::f32,
               .absolute = 1e-6,
               .relative = 1e-4,
               .group = 64 * row_width},
              {.object = object_w2, .type = element::f32, .absolute = 1e-6, .relative = 1e-4}};
  }

  std::vector<file_object> const& objects() const override { return objects_; }
  std::vector<result_rule> const& rules() const override { return rules_; }

  void compute(file_arrays& a) override {
    auto const* const input = a.of<float>(object_input);
    auto* const w1 = a.of<float>(object_w1);
    launch_on(
        a,
        {{object_input, access::read}, {object_w1, access::read}, {object_partial, access::write}},
        sum_inputs, static_cast<unsigned>(n_ / 16), dim3(hidden_units, 16), input, w1,
        a.of<float>(object_partial));
    learn_second_layer(a);
    std::uint64_t const count = (n_ + 1) * row_width;
    launch_on(a,
              {{object_input, access::read},
               {object_delta, access::read},
               {object_w1, access::read_write},
               {object_w1prev, access::read_write}},
              adjust_weights, static_cast<unsigned>((count + 255) / 256), 256, input,
              a.of<float>(object_delta), w1, a.of<float>(object_w1prev), count);
  }

  void prepare_reference() override { network_.learn(); }

  void reference(unsigned object, std::uint64_t first, std::span<double> to) const override {
    for (std::uint64_t i = 0; i < to.size(); ++i)
      to[i] = object == object_w1 ? network_.new_w1(first + i) : network_.new_w2(first + i);
  }

  /// The CPU reads all partial sums, a row of w1, and w2, which is written home over the device.
  /// Without declarations it also fetches the small arrays that it writes.
  void check_counters(mapping_statistics const& got, checks& c) const override {
    std::uint64_t const weights = row_bytes * (n_ + 1), small = sizeof(second_layer);
    auto const pages = [](std::uint64_t bytes) { return (bytes + 4095) / 4096; };
    c.equal("fill_bytes", got.fill_bytes, weights + 4 * (n_ + 1) + 8 + small);
    c.equal("fills_skipped", got.fills_skipped, 0);
    c.equal("writeback_pages", got.writeback_pages, pages(weights) + pages(small));
    c.equal("writeback_bytes", got.writeback_bytes, weights + small);
    std::uint64_t const row = std::min<std::uint64_t>(*objects_[object_w1].block, weights);
    std::uint64_t const written = is_declared_ ? 0 : small + row_bytes;
    c.equal("bytes_d2h", got.bytes_d2h, 4 * n_ + row + small + written + weights + small);
    c.equal("bytes_h2d", got.bytes_h2d, small + row_bytes + (is_declared_ ? 0 : small));
  }

 private:
  /// The CPU's part: sums, the output, the second layer's new weights, the hidden units' errors.
  void learn_second_layer(file_arrays& a) const {
    auto const partial = a.read(object_partial, {.first = 0, .row_bytes = 4 * n_});
    auto const sums = sum_partials(partial.row<float>(0), n_);
    auto const bias = copy_of<unit_values<float>>(a, object_w1);
    second_layer w2 = copy_of<second_layer>(a, object_w2);
    second_layer last = copy_of<second_layer>(a, object_w2prev);
    auto const target = copy_of<std::array<float, 2>>(a, object_target);
    auto const delta = learn(sums, bias, w2, last, target[1]);
    a.write(object_w2, 0, &w2, sizeof(w2));
    a.write(object_w2prev, 0, &last, sizeof(last));
    a.write(object_delta, 0, delta.data(), sizeof(delta));
  }

  template <class T>
  [[nodiscard]] static T copy_of(file_arrays& a, unsigned object) {
    T value;
    std::memcpy(&value, a.read(object, {.first = 0, .row_bytes = sizeof(T)}).data, sizeof(T));
    return value;
  }

  backprop_network network_;
  std::uint64_t n_;
  bool is_declared_;
  std::vector<file_object> objects_;
  std::vector<result_rule> rules_;
};

}  // namespace

description const workload_backprop = {
    .name = "backprop",
    .what = "a training step of a network, the second layer on the CPU",
    .parameters = {{"footprint", 3 << 20, 4ull << 30, "bytes of all arrays", 2176, 1ull << 41}},
    .make = make_file_program<backprop>,
    .has_files = true,
};

}  // namespace gpufs::apps::workloads
