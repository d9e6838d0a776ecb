// layers: a chain of matrix layers, forward and then backward in reverse order. It stands for the
// networks of DRAGON's paper (figure 7): most of its bytes are activations, which are scratch.
#include <gpufs/device.hpp>

#include <apps/common/generator.hpp>
#include <apps/common/program.hpp>
#include <apps/harness/input_file.hpp>
#include <apps/mapping/all.hpp>
#include <apps/mapping/files/file_arrays.hpp>
#include <apps/mapping/files/file_program.hpp>

#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <vector>

namespace gpufs::apps::workloads {

namespace {

constexpr unsigned tile = 16;

// Weights are powers of two, so products are exact, and sums in the same order have the same bits
// on the CPU and on the GPU.

/// next = relu(rows x weights): rows of `width` elements. A thread for each element.
__global__ void __launch_bounds__(tile* tile)
    go_forward(float const* rows, float const* weights, float* next, std::uint64_t width) {
  __shared__ float a[tile][tile], b[tile][tile];
  unsigned const x = threadIdx.x, y = threadIdx.y;
  std::uint64_t const row = blockIdx.x * std::uint64_t{tile} + y;
  std::uint64_t const column = blockIdx.y * std::uint64_t{tile} + x;
  float sum = 0;
  for (std::uint64_t k = 0; k < width; k += tile) {
    a[y][x] = rows[row * width + k + x];
    b[y][x] = weights[(k + y) * width + column];
    __syncthreads();
    for (unsigned i = 0; i < tile; ++i) sum += a[y][i] * b[i][x];
    __syncthreads();
  }
  next[row * width + column] = sum > 0 ? sum : 0;
}

/// before = (gradient, where the layer's rows are above 0) x the transposed weights.
__global__ void __launch_bounds__(tile* tile)
    go_back(float const* gradient, float const* rows, float const* weights, float* before,
            std::uint64_t width) {
  __shared__ float a[tile][tile], b[tile][tile + 1];
  unsigned const x = threadIdx.x, y = threadIdx.y;
  std::uint64_t const row = blockIdx.x * std::uint64_t{tile} + y;
  std::uint64_t const column = blockIdx.y * std::uint64_t{tile} + x;
  float sum = 0;
  for (std::uint64_t k = 0; k < width; k += tile) {
    std::uint64_t const at = row * width + k + x;
    a[y][x] = rows[at] > 0 ? gradient[at] : 0;
    b[y][x] = weights[(column - x + y) * width + k + x];
    __syncthreads();
    for (unsigned i = 0; i < tile; ++i) sum += a[y][i] * b[x][i];
    __syncthreads();
  }
  before[row * width + column] = sum;
}

/// The sizes and the numbers of the files.
struct network {
  explicit network(setup const& s)
      : layers(s["layers"]), width(s["width"]), seed(s.seed), scale(1 / std::sqrt(float(width))) {
    std::uint64_t const per_row = sizeof(float) * width * (2 * layers + 1);
    std::uint64_t const room = s["footprint"] - std::min(s["footprint"], weight_bytes());
    rows = std::max<std::uint64_t>(room / per_row / tile, 1) * tile;
  }

  [[nodiscard]] std::uint64_t matrix_bytes() const { return width * width * sizeof(float); }
  [[nodiscard]] std::uint64_t weight_bytes() const { return layers * matrix_bytes(); }
  [[nodiscard]] std::uint64_t row_bytes() const { return width * sizeof(float); }
  [[nodiscard]] std::uint64_t bytes() const { return rows * row_bytes(); }

  /// Small integers.
  [[nodiscard]] float input(std::uint64_t i) const {
    return float(generate_below(array_seed(seed, 0), i, 9)) - 4;
  }
  /// relu takes half of a sum's square. Every other matrix makes up for two layers.
  [[nodiscard]] float weight(std::uint64_t i) const {
    float const size = i / (width * width) % 2 == 0 ? scale : 2 * scale;
    return generate(array_seed(seed, 1), i) % 2 == 0 ? size : -size;
  }

  std::uint64_t layers, width, seed;
  float scale;
  std::uint64_t rows = 0;
};

class layers final : public file_workload {
 public:
  explicit layers(setup const& s) : net_(s) {
    objects_ = {{.name = "X0",
                 .bytes = net_.bytes(),
                 .fill = fill_elements<float>([this](std::uint64_t i) { return net_.input(i); })},
                {.name = "W",
                 .bytes = net_.weight_bytes(),
                 .fill = fill_elements<float>([this](std::uint64_t i) { return net_.weight(i); })},
                {.name = "G0", .bytes = net_.bytes(), .use = object_use::output}};
    for (char const* const kind : {"X", "G"})
      for (std::uint64_t k = 1; k < net_.layers + (*kind == 'X' ? 1 : 0); ++k)
        objects_.push_back(
            {.name = kind + std::to_string(k), .bytes = net_.bytes(), .use = object_use::scratch});
    rules_ = {{.object = object_g0,
               .type = element::f32,
               .group = tile * net_.width,
               .most_groups = std::uint64_t{net_.rows <= 1024 ? 1u << 12 : 64u}}};
  }

  std::vector<file_object> const& objects() const override { return objects_; }
  std::vector<result_rule> const& rules() const override { return rules_; }

  void compute(file_arrays& a) override {
    dim3 const grid(unsigned(net_.rows / tile), unsigned(net_.width / tile)), block(tile, tile);
    for (std::uint64_t k = 1; k <= net_.layers; ++k)
      launch_on(a,
                {{rows_of(k - 1), access::read},
                 {object_w, access::read, matrix_at(k), net_.matrix_bytes()},
                 {rows_of(k), access::write}},
                go_forward, grid, block, a.of<float>(rows_of(k - 1)), weights(a, k),
                a.of<float>(rows_of(k)), net_.width);
    // The first gradient is the last layer's rows, as if half the sum of their squares were to go.
    for (std::uint64_t k = net_.layers; k > 0; --k)
      launch_on(a,
                {{gradient_of(k), access::read},
                 {rows_of(k), access::read},
                 {object_w, access::read, matrix_at(k), net_.matrix_bytes()},
                 {gradient_of(k - 1), access::write}},
                go_back, grid, block, a.of<float>(gradient_of(k)), a.of<float>(rows_of(k)),
                weights(a, k), a.of<float>(gradient_of(k - 1)), net_.width);
  }

  void prepare_reference() override {
    weights_.resize(net_.layers * net_.width * net_.width);
    for (std::uint64_t i = 0; i < weights_.size(); ++i) weights_[i] = net_.weight(i);
  }

  void reference(unsigned, std::uint64_t first, std::span<double> to) const override {
    for (std::uint64_t done = 0; done < to.size(); done += net_.width) {
      auto const row = gradient_of_row((first + done) / net_.width);
      std::ranges::copy(row, to.begin() + std::ptrdiff_t(done));
    }
  }

  void check_counters(mapping_statistics const& got, checks& c) const override {
    std::uint64_t const read = net_.bytes() + net_.weight_bytes();
    if (got.moves == 0) return check_streamed(got, {.read = read, .written = net_.bytes()}, c);
    c.equal("writeback_bytes", got.writeback_bytes, net_.bytes());
  }

 private:
  enum : unsigned { object_x0, object_w, object_g0, first_scratch };

  [[nodiscard]] unsigned rows_of(std::uint64_t k) const {
    return k == 0 ? object_x0 : first_scratch + unsigned(k) - 1;
  }
  [[nodiscard]] unsigned gradient_of(std::uint64_t k) const {
    if (k == net_.layers) return rows_of(k);
    return k == 0 ? object_g0 : first_scratch + unsigned(net_.layers + k) - 1;
  }
  /// Of the matrix between rows k - 1 and k.
  [[nodiscard]] std::uint64_t matrix_at(std::uint64_t k) const {
    return (k - 1) * net_.matrix_bytes();
  }
  [[nodiscard]] float const* weights(file_arrays const& a, std::uint64_t k) const {
    return a.of<float>(object_w) + matrix_at(k) / sizeof(float);
  }

  // As the kernels, in the same order.
  [[nodiscard]] std::vector<float> gradient_of_row(std::uint64_t row) const {
    auto const n = net_.width;
    std::vector<std::vector<float>> x(net_.layers + 1, std::vector<float>(n));
    for (std::uint64_t i = 0; i < n; ++i) x[0][i] = net_.input(row * n + i);
    for (std::uint64_t k = 1; k <= net_.layers; ++k) {
      auto const* const w = weights_.data() + (k - 1) * n * n;
      for (std::uint64_t i = 0; i < n; ++i)
        for (std::uint64_t j = 0; j < n; ++j) x[k][j] += x[k - 1][i] * w[i * n + j];
      for (auto& v : x[k]) v = v > 0 ? v : 0;
    }
    std::vector<float> g = x[net_.layers];
    for (std::uint64_t k = net_.layers; k > 0; --k) {
      auto const* const w = weights_.data() + (k - 1) * n * n;
      std::vector<float> before(n);
      for (std::uint64_t i = 0; i < n; ++i)
        for (std::uint64_t j = 0; j < n; ++j) before[i] += (x[k][j] > 0 ? g[j] : 0) * w[i * n + j];
      g = before;
    }
    return g;
  }

  network net_;
  std::vector<file_object> objects_;
  std::vector<result_rule> rules_;
  std::vector<float> weights_;
};

std::unique_ptr<workload> make_layers(setup const& of) {
  auto const width = of["width"];
  if (width != 16 && width != 64 && width != 256 && width != 1024)
    throw usage_error("width=" + std::to_string(width) + ": must be one of 16, 64, 256, 1024");
  return make_file_program<layers>(of);
}

}  // namespace

description const workload_layers = {
    .name = "layers",
    .what = "a chain of matrix layers, forward and back, whose activations are scratch",
    .parameters = {{"footprint", 3 << 20, 4ull << 30, "bytes of the files and of scratch", 1,
                    1ull << 42},
                   {"layers", 8, 32, "layers", 1, 1000},
                   {"width", 64, 256, "elements of a row: 16, 64, 256 or 1024", 16, 1024}},
    .make = make_layers,
    .has_files = true,
};

}  // namespace gpufs::apps::workloads
