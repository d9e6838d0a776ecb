// BICG (PolyBench): q = A p and s = A^T r, the two products of the BiCG solver.
#include <apps/harness/port.hpp>
#include <apps/ports/all.hpp>
#include <apps/ports/matrix_vector.hpp>

#include <numbers>

namespace gpufs::apps {

namespace {

/// Both vectors of the suite: i * pi.
struct multiples_of_pi {
  __host__ __device__ float operator()(std::uint64_t i) const {
    return static_cast<float>(static_cast<double>(i) * std::numbers::pi);
  }
  __device__ float operator()(std::uint64_t i, float) const { return (*this)(i); }
};

struct store_to {
  float* to;
  __device__ void operator()(std::uint64_t i, float sum) const { to[i] = sum; }
};

class bicg final : public port {
 public:
  explicit bicg(problem const& p)
      : problem_(p), n_(p.pick(250, 4096, 16000)), products_({n_, n_}, one_thread_each(p)) {}

  std::vector<input_file> files() const override { return {matrix_file(problem_, 1, n_)}; }

  std::vector<output_array> outputs() const override {
    tolerance const t{0, problem_.pick(2e-5, 2e-4, 2e-4)};
    return {{"q", element::f32, n_, t}, {"s", element::f32, n_, t}};
  }

  void prepare() override { products_.allocate(); }

  void compute(device_arrays const& a) override {
    products_.rows(a.input<float>(0), multiples_of_pi(), store_to{a.output<float>(0)});
    products_.columns(a.input<float>(0), multiples_of_pi(), store_to{a.output<float>(1)});
  }

  void prepare_fused(unsigned blocks) override { from_file_ = file_products(blocks, n_); }

  void compute_fused(chunk_io const& files, unsigned blocks, unsigned threads,
                     device_arrays const& a) override {
    launch(sum_file<multiples_of_pi, store_to, multiples_of_pi>, blocks, threads, files, 0,
           products_.shape, from_file_.windows.data(), from_file_.partials.data(),
           multiples_of_pi(), store_to{a.output<float>(0)}, multiples_of_pi());
    launch(add_partials<store_to>, static_cast<unsigned>((n_ + 255) / 256), 256,
           from_file_.partials.data(), n_, blocks, store_to{a.output<float>(1)});
  }

  host_outputs reference(host_inputs const& in) const override {
    host_outputs out(outputs());
    auto const vector = as_doubles(n_, multiples_of_pi());
    std::ranges::copy(host_rows(in.as<float>(0).data(), n_, vector), out.as<float>(0).begin());
    std::ranges::copy(host_columns(in.as<float>(0).data(), n_, vector), out.as<float>(1).begin());
    return out;
  }

 private:
  problem problem_;
  std::uint64_t n_;
  matrix_products products_;
  file_products from_file_;
};

}  // namespace

port_description const port_bicg{
    .name = "bicg",
    .summary =
        "PolyBench BICG: the two matrix-vector products of the BiCG solver, with a matrix that is "
        "read from a file",
    .blocks = 128,
    .fused = true,
    .real_input = {},
    .pictures = false,
    .has_formula = true,
    .extras = {compute_option()},
    .make = [](problem const& p) -> std::unique_ptr<port> { return std::make_unique<bicg>(p); },
};

}  // namespace gpufs::apps
