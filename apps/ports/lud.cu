// LUD (Rodinia): the LU decomposition of a matrix without pivoting, in tiles of 16 x 16. L has ones
// on its diagonal, which are not stored.
#include <gpufs/gpufs.hpp>

#include <apps/harness/parallel.hpp>
#include <apps/ports/all.hpp>

#include <algorithm>
#include <cmath>
#include <string>

namespace gpufs::apps {

namespace {

constexpr unsigned tile = 16;

__global__ void copy_matrix(float const* from, float* to, std::uint64_t count) {
  std::uint64_t const step = std::uint64_t{gridDim.x} * blockDim.x;
  for (std::uint64_t i = blockIdx.x * std::uint64_t{blockDim.x} + threadIdx.x; i < count; i += step)
    to[i] = from[i];
}

/// Decomposes the diagonal tile that begins at row and column `at`. One block of `tile` threads.
__global__ void factor_diagonal(float* a, std::uint64_t n, std::uint64_t at) {
  __shared__ float m[tile][tile];
  unsigned const t = threadIdx.x;
  float* const corner = a + at * n + at;
  for (unsigned i = 0; i < tile; ++i) m[i][t] = corner[i * n + t];
  __syncthreads();
  for (unsigned i = 0; i + 1 < tile; ++i) {
    if (t > i) {  // column i of L
      for (unsigned k = 0; k < i; ++k) m[t][i] -= m[t][k] * m[k][i];
      m[t][i] /= m[i][i];
    }
    __syncthreads();
    if (t > i) {  // row i + 1 of U
      for (unsigned k = 0; k <= i; ++k) m[i + 1][t] -= m[i + 1][k] * m[k][t];
    }
    __syncthreads();
  }
  for (unsigned i = 0; i < tile; ++i) corner[i * n + t] = m[i][t];
}

/// The tiles right of the diagonal one (threads below 16) and below it (the others): block b does
/// the b-th of each.
__global__ void factor_perimeter(float* a, std::uint64_t n, std::uint64_t at) {
  __shared__ float diagonal[tile][tile], row[tile][tile], column[tile][tile];
  unsigned const t = threadIdx.x % tile;
  bool const right = threadIdx.x < tile;
  std::uint64_t const other = at + (blockIdx.x + 1) * tile;
  float* const u = a + at * n + other;
  float* const l = a + other * n + at;
  for (unsigned i = 0; i < tile; ++i) {
    if (right) {
      diagonal[i][t] = a[(at + i) * n + at + t];
      row[i][t] = u[i * n + t];
    } else {
      column[i][t] = l[i * n + t];
    }
  }
  __syncthreads();
  if (right) {
    for (unsigned i = 1; i < tile; ++i) {
      for (unsigned k = 0; k < i; ++k) row[i][t] -= diagonal[i][k] * row[k][t];
    }
  } else {
    for (unsigned j = 0; j < tile; ++j) {
      for (unsigned k = 0; k < j; ++k) column[t][j] -= column[t][k] * diagonal[k][j];
      column[t][j] /= diagonal[j][j];
    }
  }
  __syncthreads();
  for (unsigned i = 0; i < tile; ++i) {
    if (right) {
      u[i * n + t] = row[i][t];
    } else {
      l[i * n + t] = column[i][t];
    }
  }
}

/// What the tiles of this step take from all that remain. A block for each of them.
__global__ void update_rest(float* a, std::uint64_t n, std::uint64_t at) {
  __shared__ float l[tile][tile], u[tile][tile];
  unsigned const x = threadIdx.x, y = threadIdx.y;
  std::uint64_t const row = at + (blockIdx.y + 1) * tile + y,
                      column = at + (blockIdx.x + 1) * tile + x;
  l[y][x] = a[row * n + at + x];
  u[y][x] = a[(at + y) * n + column];
  __syncthreads();
  float sum = 0;
  for (unsigned k = 0; k < tile; ++k) sum += l[y][k] * u[k][x];
  a[row * n + column] -= sum;
}

/// The suite's matrix: 10 exp(-0.001 |i - j|).
double const rho = std::exp(-0.001);

class lud final : public port {
 public:
  explicit lud(problem const& p) : problem_(p), n_(p.pick(96, 2048, 8192)) {}

  std::vector<input_file> files() const override {
    std::uint64_t const row = n_ * sizeof(float);
    if (!problem_.random) {
      auto const value = [n = n_](std::uint64_t e) {
        double const distance = std::abs(static_cast<double>(e / n) - static_cast<double>(e % n));
        return static_cast<float>(10 * std::exp(-0.001 * distance));
      };
      return {whole_file("a.f32", n_ * row, row, fill_elements<float>(value))};
    }
    auto const dominant = [n = n_, seed = problem_.seed](std::uint64_t e) {
      return e / n == e % n ? static_cast<float>(n) : uniform(seed, e);
    };
    return {whole_file("a.f32", n_ * row, row, fill_elements<float>(dominant))};
  }

  std::vector<output_array> outputs() const override {
    return {{"lu", element::f32, n_ * n_, {1e-3, 1e-3}}};
  }

  void prepare() override {
    load_kernel(copy_matrix);
    load_kernel(factor_diagonal);
    load_kernel(factor_perimeter);
    load_kernel(update_rest);
  }

  void compute(device_arrays const& a) override {
    float* const m = a.output<float>(0);
    launch(copy_matrix, 256, 256, a.input<float>(0), m, n_ * n_);
    for (std::uint64_t at = 0; at < n_; at += tile) {
      auto const left = static_cast<unsigned>((n_ - at) / tile - 1);
      launch(factor_diagonal, 1, tile, m, n_, at);
      if (left == 0) break;
      launch(factor_perimeter, left, 2 * tile, m, n_, at);
      launch(update_rest, dim3(left, left), dim3(tile, tile), m, n_, at);
    }
  }

  host_outputs reference(host_inputs const& in) const override {
    host_outputs out(outputs());
    auto const a = in.as<float>(0);
    std::vector<double> m(a.begin(), a.end());
    for (std::uint64_t k = 0; k < n_; ++k) {
      parallel_for(n_ - k - 1, 64, [&](std::uint64_t below) {
        double* const row = &m[(k + 1 + below) * n_];
        double const factor = row[k] /= m[k * n_ + k];
        for (std::uint64_t j = k + 1; j < n_; ++j) row[j] -= factor * m[k * n_ + j];
      });
    }
    std::ranges::copy(m, out.as<float>(0).begin());
    return out;
  }

  /// Multiplies L and U again, at every place or (beyond 512) at 16384 of them: far less work than
  /// a decomposition. What may be missing of the file's number is what rounding can take: half a
  /// unit in the last place of the terms' magnitudes for each sum that they went through, of which
  /// there is one in each step before the element's own, and one for each of the tile's own terms.
  /// The suite's matrix has L and U in closed form besides.
  std::string check(host_inputs const& in, host_outputs const& got) const override {
    auto const a = in.as<float>(0);
    auto const lu = got.as<float>(0);
    bool const all = n_ <= 512;
    std::uint64_t const places = all ? n_ * n_ : 16384;
    auto const place = [&](std::uint64_t s) { return all ? s : generate_below(1, s, n_ * n_); };
    double const absolute = n_ <= 2048 ? 1e-4 : 1e-3;
    auto const product_is_wrong = [&](std::uint64_t s) {
      std::uint64_t const i = place(s) / n_, j = place(s) % n_;
      double sum = 0, magnitude = 0;
      for (std::uint64_t k = 0; k <= std::min(i, j); ++k) {
        double const term = (k == i ? 1 : static_cast<double>(lu[i * n_ + k])) *
                            static_cast<double>(lu[k * n_ + j]);
        sum += term;
        magnitude += std::abs(term);
      }
      auto const roundings = static_cast<double>(std::min(i, j) / tile + tile);
      return !std::isfinite(magnitude) || !(std::abs(sum - static_cast<double>(a[i * n_ + j])) <=
                                            absolute + roundings * 0x1p-24 * magnitude);
    };
    std::uint64_t wrong = parallel_find(places, product_is_wrong);
    if (wrong != places) return "(L U)" + at(place(wrong)) + " is not what the file has there";
    if (problem_.random) return {};
    wrong = parallel_find(
        n_ * n_, [&](std::uint64_t e) { return !close_to_closed_form(e / n_, e % n_, lu[e]); });
    return wrong == n_ * n_ ? "" : "lu" + at(wrong) + " is not what the closed form says";
  }

 private:
  [[nodiscard]] std::string at(std::uint64_t e) const {
    std::string text = "[";
    text += std::to_string(e / n_);
    text += "][";
    text += std::to_string(e % n_);
    return text += "]";
  }

  [[nodiscard]] static bool close_to_closed_form(std::uint64_t i, std::uint64_t j, float got) {
    if (i > j) return std::abs(got - std::pow(rho, static_cast<double>(i - j))) <= 5e-2;
    double const u = 10 * std::pow(rho, static_cast<double>(j - i)) * (i == 0 ? 1 : 1 - rho * rho);
    return std::abs(got - u) <= 1e-3;
  }

  problem problem_;
  std::uint64_t n_;
};

}  // namespace

port_description const port_lud{
    .name = "lud",
    .summary = "Rodinia LUD: the LU decomposition of a matrix that is read from a file",
    .blocks = 128,
    .fused = false,
    .real_input = {},
    .pictures = false,
    .has_formula = true,
    .extras = {},
    .make = [](problem const& p) -> std::unique_ptr<port> { return std::make_unique<lud>(p); },
};

}  // namespace gpufs::apps
