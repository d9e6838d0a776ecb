// HOTSPOT (Rodinia): the temperature of a chip from the power of its cells, a few explicit steps.
#include <gpufs/gpufs.hpp>

#include <apps/harness/extras.hpp>
#include <apps/harness/parallel.hpp>
#include <apps/harness/strips.hpp>
#include <apps/ports/all.hpp>

#include <algorithm>
#include <cmath>
#include <utility>

namespace gpufs::apps {

namespace {

/// A grid of n x n cells, and what the suite's constants make of their size.
struct chip {
  std::uint64_t n;
  float step_per_capacity, rx, ry, rz;
};

/// Chip 16 mm x 16 mm x 0.5 mm of silicon. Finer grids than 1024 make the explicit scheme unstable:
/// `fixed_pitch` gives every grid the cells of that one.
chip make_chip(std::uint64_t n, bool fixed_pitch) {
  double const thickness = 0.0005, heat = 1.75e6, conductivity = 100, capacity_factor = 0.5,
               most_power = 3.0e6, precision = 0.001;
  double const cell = 0.016 / static_cast<double>(fixed_pitch ? 1024 : n);
  double const capacity = capacity_factor * heat * thickness * cell * cell;
  double const resistance = cell / (2 * conductivity * thickness * cell);
  double const rz = thickness / (conductivity * cell * cell);
  double const step = precision / (most_power / (capacity_factor * thickness * heat));
  return {n, static_cast<float>(step / capacity), static_cast<float>(resistance),
          static_cast<float>(resistance), static_cast<float>(rz)};
}

/// The new temperature of column j of a row, from the rows above and below; outside the grid counts
/// what the cell itself has.
__host__ __device__ inline float heat(chip const& c, float const* above, float const* here,
                                      float const* below, float power, std::uint64_t j) {
  float const ambient = 80.0f;
  float const t = here[j];
  float const west = j == 0 ? t : here[j - 1];
  float const east = j + 1 == c.n ? t : here[j + 1];
  return t + c.step_per_capacity * (power + (above[j] + below[j] - 2.0f * t) / c.ry +
                                    (east + west - 2.0f * t) / c.rx + (ambient - t) / c.rz);
}

__global__ void heat_grid(float const* in, float const* power, float* out, chip c) {
  std::uint64_t const i = blockIdx.y * std::uint64_t{blockDim.y} + threadIdx.y;
  std::uint64_t const j = blockIdx.x * std::uint64_t{blockDim.x} + threadIdx.x;
  if (i >= c.n || j >= c.n) return;
  float const* const here = in + i * c.n;
  out[i * c.n + j] = heat(c, i == 0 ? here : here - c.n, here, i + 1 == c.n ? here : here + c.n,
                          power[i * c.n + j], j);
}

/// The first step, from the files: each block reads its strip of rows of both; of the temperatures
/// one more on either side, and holds three of them at a time. Powers go to where later steps find
/// them.
__global__ void __launch_bounds__(512)
    heat_file(chunk_io files, float* windows, float* power, float* out, chip c) {
  io_context io(files.fs, cooperative_groups::this_thread_block());
  int const temperatures = open_file(io, files, 0);
  if (temperatures < 0) return;
  int const powers = open_file(io, files, 1);
  if (powers < 0) return;
  strip const mine = strip_of(c.n, gridDim.x, blockIdx.x);
  float* const window = windows + blockIdx.x * 3 * c.n;
  auto const slot = [&](std::uint64_t row) { return window + row % 3 * c.n; };
  std::uint64_t const row_bytes = c.n * sizeof(float);
  std::uint64_t const first = mine.begin == 0 ? 0 : mine.begin - 1;
  std::uint64_t const last = mine.end < c.n ? mine.end : c.n - 1;
  // The powers of a row are read just before its temperatures are needed. gread begins with a
  // barrier. So no thread overwrites bytes that others still use.
  auto const compute = [&](std::uint64_t i) {
    float* const p = power + i * c.n;
    if (!read_chunk(io, files, 1, powers, p, row_bytes, i * row_bytes)) return false;
    add_to_checksum(files, 1, p, row_bytes, i * row_bytes);
    for (std::uint64_t j = threadIdx.x; j < c.n; j += blockDim.x) {
      out[i * c.n + j] =
          heat(c, slot(i == 0 ? i : i - 1), slot(i), slot(i + 1 == c.n ? i : i + 1), p[j], j);
    }
    return true;
  };
  bool good = true;
  for (std::uint64_t i = first; good && mine.begin < mine.end && i <= last; ++i) {
    good = read_chunk(io, files, 0, temperatures, slot(i), row_bytes, i * row_bytes);
    if (good && i >= mine.begin && i < mine.end)
      add_to_checksum(files, 0, slot(i), row_bytes, i * row_bytes);
    if (good && i > mine.begin) good = compute(i - 1);
    if (good && i + 1 == c.n && mine.end == c.n)
      good = compute(i);  // who has the last row for a neighbour only leaves it
  }
  gclose(io, temperatures);
  gclose(io, powers);
}

class hotspot final : public port {
 public:
  explicit hotspot(problem const& p)
      : problem_(p),
        chip_(
            make_chip(p.pick(128, 4096, 16384), choice_option(p, "pitch", {"chip", "fixed"}) == 1)),
        iterations_(number_option(p, "iterations", 1, 1000)) {}

  std::vector<input_file> files() const override {
    auto const grid = [&](char const* name, std::uint64_t array, float start, float range) {
      auto const value = [seed = array_seed(problem_.seed, array), start, range](std::uint64_t i) {
        return start + range * uniform(seed, i);
      };
      return whole_file(name, cells() * sizeof(float), chip_.n * sizeof(float),
                        fill_elements<float>(value));
    };
    return {grid("temp.f32", 0, 323, 18), grid("power.f32", 1, 0, 1e-3f)};
  }

  std::vector<output_array> outputs() const override {
    return {{"temperature", element::f32, cells(), {1e-3, 1e-5}}};
  }

  void prepare() override {
    if (iterations_ > 1) other_ = buffer<float>(cells());
    load_kernel(heat_grid);
    load_kernel(heat_file);
  }

  void compute(device_arrays const& a) override {
    steps(a.input<float>(0), a.input<float>(1), iterations_, a.output<float>(0));
  }

  void prepare_fused(unsigned blocks) override {
    windows_ = buffer<float>(blocks * 3 * chip_.n);
    if (power_.size() == 0) power_ = buffer<float>(cells());
  }

  void compute_fused(chunk_io const& files, unsigned blocks, unsigned threads,
                     device_arrays const& a) override {
    float* const first = iterations_ % 2 == 1 ? a.output<float>(0) : other_.data();
    launch(heat_file, blocks, threads, files, windows_.data(), power_.data(), first, chip_);
    steps(first, power_.data(), iterations_ - 1, a.output<float>(0));
  }

  host_outputs reference(host_inputs const& in) const override {
    host_outputs out(outputs());
    std::uint64_t const n = chip_.n;
    auto const start = in.as<float>(0);
    auto const power = in.as<float>(1);
    std::vector<float> now(start.begin(), start.end()), next(now.size());
    for (std::uint64_t step = 0; step < iterations_; ++step) {
      parallel_for(n, 16, [&](std::uint64_t i) {
        float const* const here = &now[i * n];
        for (std::uint64_t j = 0; j < n; ++j) {
          next[i * n + j] = heat(chip_, i == 0 ? here : here - n, here,
                                 i + 1 == n ? here : here + n, power[i * n + j], j);
        }
      });
      std::swap(now, next);
    }
    float largest = 0;
    for (float const t : now) largest = std::max(largest, std::abs(t));
    std::ranges::copy(now, out.as<float>(0).begin());
    // Where the scheme is not stable, differences of rounding grow with the values.
    out.allow(0, {std::max(1e-3, 1e-5 * static_cast<double>(largest)), 1e-5});
    return out;
  }

 private:
  [[nodiscard]] std::uint64_t cells() const { return chip_.n * chip_.n; }

  /// Queues `count` steps, the last of them into `out`.
  void steps(float const* from, float const* power, std::uint64_t count, float* out) const {
    auto const n = static_cast<unsigned>(chip_.n);
    for (; count != 0; --count) {
      float* const to = count % 2 == 1 ? out : other_.data();
      launch(heat_grid, dim3((n + 31) / 32, (n + 7) / 8), dim3(32, 8), from, power, to, chip_);
      from = to;
    }
  }

  problem problem_;
  chip chip_;
  std::uint64_t iterations_;
  buffer<float> other_;
  buffer<float> windows_;
  buffer<float> power_;
};

}  // namespace

port_description const port_hotspot{
    .name = "hotspot",
    .summary =
        "Rodinia HOTSPOT: the temperature of a chip, from files with its temperatures and powers",
    .blocks = 128,
    .fused = true,
    .real_input = {},
    .pictures = false,
    .extras = {{"iterations", "2", "steps"},
               {"pitch", "fixed",
                "fixed: cells as large as in a grid of 1024; chip: of a 16 mm chip, unstable above "
                "1024"}},
    .make = [](problem const& p) -> std::unique_ptr<port> { return std::make_unique<hotspot>(p); },
};

}  // namespace gpufs::apps
