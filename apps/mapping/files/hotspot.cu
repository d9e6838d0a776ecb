// hotspot (DRAGON, from Rodinia): a step of the temperatures of a chip. Two files in, one out, in
// tiles that overlap.
#include <gpufs/device.hpp>

#include <apps/harness/input_file.hpp>
#include <apps/mapping/all.hpp>
#include <apps/mapping/files/file_arrays.hpp>
#include <apps/mapping/files/file_program.hpp>

#include <algorithm>
#include <cmath>

namespace gpufs::apps::workloads {

namespace {

enum : unsigned { object_temp, object_power, object_output };

constexpr unsigned tile = 32,
                   border = 2;  // of a tile, cells on each side that its block only reads
constexpr unsigned inner = tile - 2 * border;

/// A grid of n x n cells, and what the suite's constants make of cells of 16 mm / 1024.
struct chip {
  std::uint64_t n;
  float step_per_capacity, rx, ry, rz;
};

chip make_chip(std::uint64_t n) {
  double const thickness = 0.0005, heat = 1.75e6, conductivity = 100, capacity_factor = 0.5,
               most_power = 3.0e6, precision = 0.001;
  double const cell = 0.016 / 1024;
  double const capacity = capacity_factor * heat * thickness * cell * cell;
  double const resistance = cell / (2 * conductivity * thickness * cell);
  double const rz = thickness / (conductivity * cell * cell);
  double const step = precision / (most_power / (capacity_factor * thickness * heat));
  return {n, static_cast<float>(step / capacity), static_cast<float>(resistance),
          static_cast<float>(resistance), static_cast<float>(rz)};
}

/// The new temperature of a cell, from its neighbours.
__host__ __device__ inline float heat(chip const& c, float t, float north, float south, float west,
                                      float east, float power) {
  float const ambient = 80.0f;
  return t + c.step_per_capacity * (power + (north + south - 2.0f * t) / c.ry +
                                    (east + west - 2.0f * t) / c.rx + (ambient - t) / c.rz);
}

/// A step. A block loads a tile of cells and computes its inner ones. Outside of the grid counts
/// what the cell itself has.
__global__ void __launch_bounds__(tile* tile)
    heat_tiles(float const* temp, float const* power, float* output, chip c) {
  __shared__ float temps[tile][tile];
  unsigned const x = threadIdx.x, y = threadIdx.y;
  // Cells before the grid's begin are above n.
  std::uint64_t const i = blockIdx.y * std::uint64_t{inner} + y - border;
  std::uint64_t const j = blockIdx.x * std::uint64_t{inner} + x - border;
  bool const is_inside = i < c.n && j < c.n;
  float const p = is_inside ? power[i * c.n + j] : 0;
  temps[y][x] = is_inside ? temp[i * c.n + j] : 0;
  __syncthreads();
  bool const is_mine = x >= border && x < tile - border && y >= border && y < tile - border;
  if (!is_inside || !is_mine) return;
  float const t = temps[y][x];
  output[i * c.n + j] = heat(c, t, i == 0 ? t : temps[y - 1][x], i + 1 == c.n ? t : temps[y + 1][x],
                             j == 0 ? t : temps[y][x - 1], j + 1 == c.n ? t : temps[y][x + 1], p);
}

/// A multiple of 1024, or of 64 if that is none.
std::uint64_t side_of(std::uint64_t footprint) {
  auto const side = static_cast<std::uint64_t>(std::sqrt(static_cast<double>(footprint) / 12));
  std::uint64_t const unit = side >= 1024 ? 1024 : 64;
  return side / unit * unit;
}

class hotspot final : public file_workload {
 public:
  explicit hotspot(setup const& s) : seed_(s.seed), chip_(make_chip(side_of(s["footprint"]))) {
    std::uint64_t const bytes = cells() * sizeof(float);
    objects_ = {{.name = "temp",
                 .bytes = bytes,
                 .use = object_use::updated,
                 .fill = fill_elements<float>([this](std::uint64_t i) { return temperature(i); })},
                {.name = "power",
                 .bytes = bytes,
                 .fill = fill_elements<float>([this](std::uint64_t i) { return power(i); })},
                {.name = "output", .bytes = bytes, .use = object_use::output}};
    rules_ = {{.object = object_output, .type = element::f32, .absolute = 1e-3, .relative = 1e-5}};
  }

  std::vector<file_object> const& objects() const override { return objects_; }
  std::vector<result_rule> const& rules() const override { return rules_; }

  void compute(file_arrays& a) override {
    auto const tiles = static_cast<unsigned>((chip_.n + inner - 1) / inner);
    launch_on(
        a,
        {{object_temp, access::read}, {object_power, access::read}, {object_output, access::write}},
        heat_tiles, dim3(tiles, tiles), dim3(tile, tile), a.of<float>(object_temp),
        a.of<float>(object_power), a.of<float>(object_output), chip_);
  }

  void reference(unsigned, std::uint64_t first, std::span<double> to) const override {
    std::uint64_t const n = chip_.n;
    for (std::uint64_t k = 0; k < to.size(); ++k) {
      std::uint64_t const at = first + k, i = at / n, j = at % n;
      float const t = temperature(at);
      to[k] =
          heat(chip_, t, i == 0 ? t : temperature(at - n), i + 1 == n ? t : temperature(at + n),
               j == 0 ? t : temperature(at - 1), j + 1 == n ? t : temperature(at + 1), power(at));
    }
  }

  /// Pages of the temperatures could be written, but none has changed.
  void check_counters(mapping_statistics const& got, checks& c) const override {
    std::uint64_t const bytes = cells() * sizeof(float);
    c.equal("fill_bytes", got.fill_bytes, 2 * bytes);
    c.equal("fills_skipped", got.fills_skipped, bytes);
    c.equal("writeback_bytes", got.writeback_bytes, bytes);
    c.equal("bytes_d2h", got.bytes_d2h, bytes);
    c.equal("faults", got.faults_read + got.faults_write, 0);
  }

 private:
  [[nodiscard]] std::uint64_t cells() const { return chip_.n * chip_.n; }
  [[nodiscard]] float temperature(std::uint64_t i) const {
    return 323.0f + 18.0f * uniform(array_seed(seed_, 0), i);
  }
  [[nodiscard]] float power(std::uint64_t i) const {
    return 1e-3f * uniform(array_seed(seed_, 1), i);
  }

  std::uint64_t seed_;
  chip chip_;
  std::vector<file_object> objects_;
  std::vector<result_rule> rules_;
};

}  // namespace

description const workload_hotspot = {
    .name = "hotspot",
    .what = "a step of the temperatures of a chip, in tiles that overlap",
    .parameters = {{"footprint", 3 << 20, 4ull << 30, "bytes of all files", 12 * 64 * 64,
                    1ull << 45}},
    .make = make_file_program<hotspot>,
    .has_files = true,
};

}  // namespace gpufs::apps::workloads
