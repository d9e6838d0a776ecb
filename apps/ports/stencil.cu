// STENCIL (Parboil): a few Jacobi steps of a 7-point stencil in a volume. The border keeps its
// values.
#include <gpufs/gpufs.hpp>

#include <apps/harness/extras.hpp>
#include <apps/harness/parallel.hpp>
#include <apps/harness/strips.hpp>
#include <apps/ports/all.hpp>

#include <utility>

namespace gpufs::apps {

namespace {

/// x runs fastest, z slowest.
struct volume {
  std::uint64_t nx, ny, nz;
  [[nodiscard]] __host__ __device__ std::uint64_t plane() const { return nx * ny; }
  [[nodiscard]] __host__ __device__ bool inside(std::uint64_t x, std::uint64_t y,
                                                std::uint64_t z) const {
    return x > 0 && y > 0 && z > 0 && x + 1 < nx && y + 1 < ny && z + 1 < nz;
  }
};

/// The new value of an inner place: its plane, and the same place in the planes before and after.
__host__ __device__ inline float step(float const* here, float before, float after,
                                      std::uint64_t nx) {
  float const c0 = 1.0f / 6, c1 = 1.0f / 36;
  auto const n = static_cast<std::int64_t>(nx);
  return c1 * (after + before + here[n] + here[-n] + here[1] + here[-1]) - c0 * here[0];
}

/// One step of the whole volume: a block for 32 x 8 places of one plane.
__global__ void step_volume(float const* in, float* out, volume v) {
  std::uint64_t const x = blockIdx.x * std::uint64_t{blockDim.x} + threadIdx.x;
  std::uint64_t const y = blockIdx.y * std::uint64_t{blockDim.y} + threadIdx.y;
  std::uint64_t const z = blockIdx.z;
  if (x >= v.nx || y >= v.ny) return;
  std::uint64_t const at = z * v.plane() + y * v.nx + x;
  out[at] =
      v.inside(x, y, z) ? step(in + at, in[at - v.plane()], in[at + v.plane()], v.nx) : in[at];
}

/// The first step, from the file: each block reads its strip of planes and one more on either side,
/// of which it holds three at a time.
__global__ void __launch_bounds__(512)
    step_file(chunk_io files, float* windows, float* out, volume v) {
  io_context io(files.fs, cooperative_groups::this_thread_block());
  int const fd = open_file(io, files, 0);
  if (fd < 0) return;
  strip const mine = strip_of(v.nz, gridDim.x, blockIdx.x);
  float* const window = windows + blockIdx.x * 3 * v.plane();
  auto const slot = [&](std::uint64_t z) { return window + z % 3 * v.plane(); };
  auto const compute = [&](std::uint64_t z) {
    bool const middle = z > 0 && z + 1 < v.nz;
    float const* const before = middle ? slot(z - 1) : nullptr;
    float const* const here = slot(z);
    float const* const after = middle ? slot(z + 1) : nullptr;
    for (std::uint64_t i = threadIdx.x; i < v.plane(); i += blockDim.x) {
      bool const inner = middle && v.inside(i % v.nx, i / v.nx, z);
      out[z * v.plane() + i] = inner ? step(here + i, before[i], after[i], v.nx) : here[i];
    }
  };
  std::uint64_t const first = mine.begin == 0 ? 0 : mine.begin - 1;
  std::uint64_t const last = mine.end < v.nz ? mine.end : v.nz - 1;
  std::uint64_t const plane_bytes = v.plane() * sizeof(float);
  for (std::uint64_t z = first; mine.begin < mine.end && z <= last; ++z) {
    // gread begins with a barrier. So no thread overwrites a plane that others still use.
    if (!read_chunk(io, files, 0, fd, slot(z), plane_bytes, z * plane_bytes)) break;
    if (z >= mine.begin && z < mine.end)
      add_to_checksum(files, 0, slot(z), plane_bytes, z * plane_bytes);
    if (z > mine.begin) compute(z - 1);
    if (z + 1 == v.nz && z < mine.end) compute(z);
  }
  gclose(io, fd);
}

class stencil final : public port {
 public:
  explicit stencil(problem const& p)
      : problem_(p),
        v_(p.pick(volume{64, 64, 32}, volume{256, 256, 256}, volume{512, 512, 1024})),
        iterations_(number_option(p, "iterations", 1, 100)) {}

  std::vector<input_file> files() const override {
    std::uint64_t const plane = v_.plane() * sizeof(float);
    return {whole_file("volume.f32", v_.nz * plane, plane,
                       fill_elements<float>(
                           [seed = problem_.seed](std::uint64_t i) { return uniform(seed, i); }))};
  }

  std::vector<output_array> outputs() const override {
    return {{"volume", element::f32, v_.nz * v_.plane(), {1e-6, 1e-5}}};
  }

  void prepare() override {
    if (iterations_ > 1) other_ = buffer<float>(v_.nz * v_.plane());
    load_kernel(step_volume);
    load_kernel(step_file);
  }

  void compute(device_arrays const& a) override {
    steps(a.input<float>(0), iterations_, a.output<float>(0));
  }

  void prepare_fused(unsigned blocks) override {
    windows_ = buffer<float>(blocks * 3 * v_.plane());
  }

  void compute_fused(chunk_io const& files, unsigned blocks, unsigned threads,
                     device_arrays const& a) override {
    float* const first = iterations_ % 2 == 1 ? a.output<float>(0) : other_.data();
    launch(step_file, blocks, threads, files, windows_.data(), first, v_);
    steps(first, iterations_ - 1, a.output<float>(0));
  }

  host_outputs reference(host_inputs const& in) const override {
    host_outputs out(outputs());
    std::span<float const> from = in.as<float>(0);
    std::vector<float> now(from.begin(), from.end()), next(now);
    for (std::uint64_t n = 0; n < iterations_; ++n) {
      parallel_for(v_.nz - 2, 1, [&](std::uint64_t below) {
        std::uint64_t const z = below + 1;
        for (std::uint64_t y = 1; y + 1 < v_.ny; ++y) {
          for (std::uint64_t x = 1; x + 1 < v_.nx; ++x) {
            std::uint64_t const at = z * v_.plane() + y * v_.nx + x;
            next[at] = step(&now[at], now[at - v_.plane()], now[at + v_.plane()], v_.nx);
          }
        }
      });
      std::swap(now, next);
    }
    std::ranges::copy(now, out.as<float>(0).begin());
    return out;
  }

 private:
  /// Queues `count` steps, the last of them into `out`.
  void steps(float const* from, std::uint64_t count, float* out) const {
    auto const nx = static_cast<unsigned>(v_.nx), ny = static_cast<unsigned>(v_.ny),
               nz = static_cast<unsigned>(v_.nz);
    for (; count != 0; --count) {
      float* const to = count % 2 == 1 ? out : other_.data();
      launch(step_volume, dim3((nx + 31) / 32, (ny + 7) / 8, nz), dim3(32, 8), from, to, v_);
      from = to;
    }
  }

  problem problem_;
  volume v_;
  std::uint64_t iterations_;
  buffer<float> other_;
  buffer<float> windows_;
};

}  // namespace

port_description const port_stencil{
    .name = "stencil",
    .summary = "Parboil STENCIL: steps of a 7-point stencil in a volume that is read from a file",
    .blocks = 128,
    .fused = true,
    .real_input = {},
    .pictures = false,
    .extras = {{"iterations", "2", "steps; values shrink threefold in each"}},
    .make = [](problem const& p) -> std::unique_ptr<port> { return std::make_unique<stencil>(p); },
};

}  // namespace gpufs::apps
