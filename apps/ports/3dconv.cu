// 3DCONV (PolyBench): one convolution of a volume. The border of the result stays zero.
#include <gpufs/gpufs.hpp>

#include <apps/harness/parallel.hpp>
#include <apps/ports/all.hpp>

namespace gpufs::apps {

namespace {

/// The convolution at one place of a volume of n x n x n. The suite uses its nine coefficients over
/// an incomplete neighbourhood, some of them at one and the same place; these are the taps that
/// come out of it.
__host__ __device__ inline float convolve(float const* at, std::int64_t n) {
  auto const tap = [&](std::int64_t i, std::int64_t j, std::int64_t k) {
    return at[(i * n + j) * n + k];
  };
  return -1 * tap(-1, -1, -1) + 21 * tap(+1, -1, -1)                 //
         - 3 * tap(0, -1, 0) + 6 * tap(0, 0, 0) - 9 * tap(0, +1, 0)  //
         + 2 * tap(-1, -1, +1) + 4 * tap(+1, -1, +1)                 //
         + 5 * tap(-1, 0, +1) + 7 * tap(+1, 0, +1)                   //
         - 8 * tap(-1, +1, +1) + 10 * tap(+1, +1, +1);
}

/// A block for 32 x 8 places of one plane; the planes are the grid's third dimension.
__global__ void convolve_volume(float const* in, float* out, std::uint64_t n) {
  std::uint64_t const i = blockIdx.z;
  std::uint64_t const j = blockIdx.y * std::uint64_t{blockDim.y} + threadIdx.y;
  std::uint64_t const k = blockIdx.x * std::uint64_t{blockDim.x} + threadIdx.x;
  if (i == 0 || j == 0 || k == 0 || i + 1 >= n || j + 1 >= n || k + 1 >= n) return;
  std::uint64_t const at = (i * n + j) * n + k;
  out[at] = convolve(in + at, static_cast<std::int64_t>(n));
}

class conv3d final : public port {
 public:
  explicit conv3d(problem const& p) : problem_(p), n_(p.pick(32, 256, 512)) {}

  std::vector<input_file> files() const override {
    std::uint64_t const plane = n_ * n_ * sizeof(float);
    // Small integers either way, so that every sum is exact.
    if (problem_.random) {
      auto const value = [seed = problem_.seed](std::uint64_t e) {
        return static_cast<float>(generate_below(seed, e, 64));
      };
      return {whole_file("a.f32", n_ * plane, plane, fill_elements<float>(value))};
    }
    auto const value = [n = n_](std::uint64_t e) {
      return static_cast<float>(e / (n * n) % 12 + 2 * (e / n % n % 7) + 3 * (e % n % 13));
    };
    return {whole_file("a.f32", n_ * plane, plane, fill_elements<float>(value))};
  }

  std::vector<output_array> outputs() const override {
    return {{"b", element::f32, n_ * n_ * n_, {}}};
  }

  void prepare() override { load_kernel(convolve_volume); }

  void compute(device_arrays const& a) override {
    auto const n = static_cast<unsigned>(n_);
    launch(convolve_volume, dim3((n + 31) / 32, (n + 7) / 8, n), dim3(32, 8), a.input<float>(0),
           a.output<float>(0), n_);
  }

  host_outputs reference(host_inputs const& in) const override {
    host_outputs out(outputs());
    float const* const a = in.as<float>(0).data();
    float* const b = out.as<float>(0).data();
    parallel_for(n_, 1, [&](std::uint64_t i) {
      if (i == 0 || i + 1 >= n_) return;
      for (std::uint64_t j = 1; j + 1 < n_; ++j) {
        std::uint64_t const row = (i * n_ + j) * n_;
        for (std::uint64_t k = 1; k + 1 < n_; ++k)
          b[row + k] = convolve(a + row + k, static_cast<std::int64_t>(n_));
      }
    });
    return out;
  }

 private:
  problem problem_;
  std::uint64_t n_;
};

}  // namespace

port_description const port_3dconv{
    .name = "3dconv",
    .summary = "PolyBench 3DCONV: a convolution of a volume that is read from a file",
    .blocks = 128,
    .fused = false,
    .real_input = {},
    .pictures = false,
    .has_formula = true,
    .extras = {},
    .make = [](problem const& p) -> std::unique_ptr<port> { return std::make_unique<conv3d>(p); },
};

}  // namespace gpufs::apps
