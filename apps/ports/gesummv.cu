// GESUMMV (PolyBench): y = alpha A x + beta B x. One file holds A, then B.
#include <apps/harness/port.hpp>
#include <apps/ports/all.hpp>
#include <apps/ports/matrix_vector.hpp>

namespace gpufs::apps {

namespace {

constexpr float alpha = 43532, beta = 12313;

/// The suite's x: i / n.
struct ramp {
  float n;
  __host__ __device__ float operator()(std::uint64_t i) const { return static_cast<float>(i) / n; }
};

struct store_scaled {
  float* y;
  __device__ void operator()(std::uint64_t i, float sum) const { y[i] = alpha * sum; }
};

struct add_scaled {
  float* y;
  __device__ void operator()(std::uint64_t i, float sum) const { y[i] += beta * sum; }
};

class gesummv final : public port {
 public:
  explicit gesummv(problem const& p)
      : problem_(p), n_(p.pick(178, 2816, 11264)), products_({n_, n_}, one_thread_each(p)) {}

  std::vector<input_file> files() const override { return {matrix_file(problem_, 2, n_)}; }

  std::vector<output_array> outputs() const override {
    return {{"y", element::f32, n_, {0, problem_.pick(2e-5, 2e-4, 2e-4)}}};
  }

  void prepare() override { products_.allocate(); }

  void compute(device_arrays const& a) override {
    products_.rows(a.input<float>(0), x(), store_scaled{a.output<float>(0)});
    products_.rows(a.input<float>(0) + n_ * n_, x(), add_scaled{a.output<float>(0)});
  }

  void prepare_fused(unsigned blocks) override { from_file_ = file_products(blocks, n_); }

  void compute_fused(chunk_io const& files, unsigned blocks, unsigned threads,
                     device_arrays const& a) override {
    float* const no_columns = nullptr;
    launch(sum_file<ramp, store_scaled, no_weight>, blocks, threads, files, 0, products_.shape,
           from_file_.windows.data(), no_columns, x(), store_scaled{a.output<float>(0)},
           no_weight());
    launch(sum_file<ramp, add_scaled, no_weight>, blocks, threads, files, n_ * n_ * sizeof(float),
           products_.shape, from_file_.windows.data(), no_columns, x(),
           add_scaled{a.output<float>(0)}, no_weight());
  }

  host_outputs reference(host_inputs const& in) const override {
    host_outputs out(outputs());
    auto const vector = as_doubles(n_, x());
    auto const ax = host_rows(in.as<float>(0).data(), n_, vector);
    auto const bx = host_rows(in.as<float>(0).data() + n_ * n_, n_, vector);
    for (std::uint64_t i = 0; i < n_; ++i)
      out.as<float>(0)[i] = static_cast<float>(double{alpha} * ax[i] + double{beta} * bx[i]);
    return out;
  }

 private:
  [[nodiscard]] ramp x() const { return {static_cast<float>(n_)}; }

  problem problem_;
  std::uint64_t n_;
  matrix_products products_;
  file_products from_file_;
};

}  // namespace

port_description const port_gesummv{
    .name = "gesummv",
    .summary =
        "PolyBench GESUMMV: alpha A x + beta B x, with two matrices that are read from a file",
    .blocks = 128,
    .fused = true,
    .real_input = {},
    .pictures = false,
    .has_formula = true,
    .extras = {compute_option()},
    .make = [](problem const& p) -> std::unique_ptr<port> { return std::make_unique<gesummv>(p); },
};

}  // namespace gpufs::apps
