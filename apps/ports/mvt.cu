// MVT (PolyBench): x1 += A y1 and x2 += A^T y2.
#include <apps/harness/port.hpp>
#include <apps/ports/all.hpp>
#include <apps/ports/matrix_vector.hpp>

namespace gpufs::apps {

namespace {

/// (i + `shift`) / n: the vectors of the suite.
struct ramp {
  float shift;
  float n;
  __host__ __device__ float operator()(std::uint64_t i) const {
    return (static_cast<float>(i) + shift) / n;
  }
};

struct weight_of_row {
  ramp y;
  __device__ float operator()(std::uint64_t i) const { return y(i); }
  __device__ float operator()(std::uint64_t i, float) const { return y(i); }
};

struct add_to {
  ramp start;
  float* x;
  __device__ void operator()(std::uint64_t i, float sum) const { x[i] = start(i) + sum; }
};

class mvt final : public port {
 public:
  explicit mvt(problem const& p)
      : problem_(p), n_(p.pick(250, 4096, 16000)), products_({n_, n_}, one_thread_each(p)) {}

  std::vector<input_file> files() const override { return {matrix_file(problem_, 1, n_)}; }

  std::vector<output_array> outputs() const override {
    tolerance const t{0, problem_.pick(2e-5, 2e-4, 2e-4)};
    return {{"x1", element::f32, n_, t}, {"x2", element::f32, n_, t}};
  }

  void prepare() override { products_.allocate(); }

  void compute(device_arrays const& a) override {
    products_.rows(a.input<float>(0), y1(), add_to{x1(), a.output<float>(0)});
    products_.columns(a.input<float>(0), weight_of_row{y2()}, add_to{x2(), a.output<float>(1)});
  }

  void prepare_fused(unsigned blocks) override { from_file_ = file_products(blocks, n_); }

  void compute_fused(chunk_io const& files, unsigned blocks, unsigned threads,
                     device_arrays const& a) override {
    launch(sum_file<ramp, add_to, weight_of_row>, blocks, threads, files, 0, products_.shape,
           from_file_.windows.data(), from_file_.partials.data(), y1(),
           add_to{x1(), a.output<float>(0)}, weight_of_row{y2()});
    launch(add_partials<add_to>, static_cast<unsigned>((n_ + 255) / 256), 256,
           from_file_.partials.data(), n_, blocks, add_to{x2(), a.output<float>(1)});
  }

  host_outputs reference(host_inputs const& in) const override {
    host_outputs out(outputs());
    auto const a_y1 = host_rows(in.as<float>(0).data(), n_, as_doubles(n_, y1()));
    auto const at_y2 = host_columns(in.as<float>(0).data(), n_, as_doubles(n_, y2()));
    for (std::uint64_t i = 0; i < n_; ++i) {
      out.as<float>(0)[i] = static_cast<float>(x1()(i) + a_y1[i]);
      out.as<float>(1)[i] = static_cast<float>(x2()(i) + at_y2[i]);
    }
    return out;
  }

 private:
  [[nodiscard]] ramp vector(float shift) const { return {shift, static_cast<float>(n_)}; }
  [[nodiscard]] ramp x1() const { return vector(0); }
  [[nodiscard]] ramp x2() const { return vector(1); }
  [[nodiscard]] ramp y1() const { return vector(3); }
  [[nodiscard]] ramp y2() const { return vector(4); }

  problem problem_;
  std::uint64_t n_;
  matrix_products products_;
  file_products from_file_;
};

}  // namespace

port_description const port_mvt{
    .name = "mvt",
    .summary =
        "PolyBench MVT: products of a matrix that is read from a file, and of its transpose, with "
        "two vectors",
    .blocks = 128,
    .fused = true,
    .real_input = {},
    .pictures = false,
    .has_formula = true,
    .extras = {compute_option()},
    .make = [](problem const& p) -> std::unique_ptr<port> { return std::make_unique<mvt>(p); },
};

}  // namespace gpufs::apps
