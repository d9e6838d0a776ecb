// ATAX (PolyBench): y = A^T (A x). The fused form needs one pass: a row's product is known once the
// row is there, and weighs it.
#include <apps/harness/port.hpp>
#include <apps/ports/all.hpp>
#include <apps/ports/matrix_vector.hpp>

#include <numbers>

namespace gpufs::apps {

namespace {

/// The suite's x: i * pi.
struct multiples_of_pi {
  __host__ __device__ float operator()(std::uint64_t i) const {
    return static_cast<float>(static_cast<double>(i) * std::numbers::pi);
  }
};

struct store_to {
  float* to;
  __device__ void operator()(std::uint64_t i, float sum) const { to[i] = sum; }
};

struct stored_at {
  float const* from;
  __device__ float operator()(std::uint64_t i) const { return from[i]; }
};

/// Weighs a row by its own product with x.
struct own_product {
  __device__ float operator()(std::uint64_t, float sum) const { return sum; }
};

class atax final : public port {
 public:
  explicit atax(problem const& p)
      : problem_(p), n_(p.pick(250, 4096, 16000)), products_({n_, n_}, one_thread_each(p)) {}

  std::vector<input_file> files() const override { return {matrix_file(problem_, 1, n_)}; }

  std::vector<output_array> outputs() const override {
    return {{"y", element::f32, n_, {0, problem_.pick(2e-5, 2e-4, 2e-4)}}};
  }

  void prepare() override {
    products_.allocate();
    product_ = buffer<float>(n_);
  }

  void compute(device_arrays const& a) override {
    products_.rows(a.input<float>(0), multiples_of_pi(), store_to{product_.data()});
    products_.columns(a.input<float>(0), stored_at{product_.data()}, store_to{a.output<float>(0)});
  }

  void prepare_fused(unsigned blocks) override { from_file_ = file_products(blocks, n_); }

  void compute_fused(chunk_io const& files, unsigned blocks, unsigned threads,
                     device_arrays const& a) override {
    launch(sum_file<multiples_of_pi, store_to, own_product>, blocks, threads, files, 0,
           products_.shape, from_file_.windows.data(), from_file_.partials.data(),
           multiples_of_pi(), store_to{product_.data()}, own_product());
    launch(add_partials<store_to>, static_cast<unsigned>((n_ + 255) / 256), 256,
           from_file_.partials.data(), n_, blocks, store_to{a.output<float>(0)});
  }

  host_outputs reference(host_inputs const& in) const override {
    host_outputs out(outputs());
    float const* const a = in.as<float>(0).data();
    auto const y = host_columns(a, n_, host_rows(a, n_, as_doubles(n_, multiples_of_pi())));
    std::ranges::copy(y, out.as<float>(0).begin());
    return out;
  }

 private:
  problem problem_;
  std::uint64_t n_;
  matrix_products products_;
  file_products from_file_;
  buffer<float> product_;
};

}  // namespace

port_description const port_atax{
    .name = "atax",
    .summary = "PolyBench ATAX: A^T (A x), with a matrix that is read from a file",
    .blocks = 128,
    .fused = true,
    .real_input = {},
    .pictures = false,
    .has_formula = true,
    .extras = {compute_option()},
    .make = [](problem const& p) -> std::unique_ptr<port> { return std::make_unique<atax>(p); },
};

}  // namespace gpufs::apps
