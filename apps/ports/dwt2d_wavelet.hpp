// The two wavelets of DWT2D as lifting steps, and the layout of their coefficients. A step changes
// the samples of one parity by what lies before and after them; outside the signal counts its
// mirror image.
#pragma once

#include <gpufs/device.hpp>

#include <cstdint>
#include <span>
#include <vector>

namespace gpufs::apps {

/// Which samples a step changes, and how: those of `parity` by `factor` times the sum of their
/// neighbours (9/7), or by the suite's integer formula (5/3).
struct lifting_step {
  unsigned parity;
  float factor;  ///< 0: a step of 5/3
};

/// 9/7, for floats from -0.5 to 0.5.
inline constexpr lifting_step steps_97[] = {
    {1, -1.586134342f}, {0, -0.05298011854f}, {1, 0.8829110762f}, {0, 0.4435068522f}};
/// By which low samples are divided and high ones multiplied in the end.
inline constexpr float scale_97 = 1.23017410491400f;
/// 5/3, for integers from -128 to 127.
inline constexpr lifting_step steps_53[] = {{1, 0}, {0, 0}};

__host__ __device__ constexpr float lifted(float x, float before, float after, lifting_step s) {
  return x + s.factor * (before + after);
}
/// C's division, which rounds towards zero: not JPEG 2000's formula where sums are negative, but
/// the suite's.
__host__ __device__ constexpr std::int32_t lifted(std::int32_t x, std::int32_t before,
                                                  std::int32_t after, lifting_step s) {
  return s.parity == 1 ? x - (before + after) / 2 : x + (before + after + 2) / 4;
}
__host__ __device__ constexpr float unlifted(float x, float before, float after, lifting_step s) {
  return x - s.factor * (before + after);
}
__host__ __device__ constexpr std::int32_t unlifted(std::int32_t x, std::int32_t before,
                                                    std::int32_t after, lifting_step s) {
  return s.parity == 1 ? x + (before + after) / 2 : x - (before + after + 2) / 4;
}

/// A sample as the transform sees it, and back.
__host__ __device__ constexpr void prepare_sample(std::uint8_t from, float& to) {
  to = static_cast<float>(from) / 255 - 0.5f;
}
__host__ __device__ constexpr void prepare_sample(std::uint8_t from, std::int32_t& to) {
  to = std::int32_t{from} - 128;
}

/// The neighbours of sample p of n (n >= 2), mirrored at the ends.
__host__ __device__ constexpr std::uint64_t before(std::uint64_t p) { return p == 0 ? 1 : p - 1; }
__host__ __device__ constexpr std::uint64_t after(std::uint64_t p, std::uint64_t n) {
  return p + 1 == n ? n - 2 : p + 1;
}

/// A picture's size at one level, and where its bands go in the output: low x low first (which the
/// next level cuts further), then rows low x columns high, rows high x columns low, high x high;
/// each without gaps.
struct level_shape {
  std::uint64_t columns, rows;
  [[nodiscard]] __host__ __device__ constexpr std::uint64_t low_columns() const {
    return (columns + 1) / 2;
  }
  [[nodiscard]] __host__ __device__ constexpr std::uint64_t low_rows() const {
    return (rows + 1) / 2;
  }
  [[nodiscard]] __host__ __device__ constexpr level_shape next() const {
    return {low_columns(), low_rows()};
  }

  /// Where the coefficient that comes out at row y and column x goes.
  [[nodiscard]] __host__ __device__ constexpr std::uint64_t place(std::uint64_t x,
                                                                  std::uint64_t y) const {
    std::uint64_t const lc = low_columns(), lr = low_rows(), hc = columns - lc, hr = rows - lr;
    std::uint64_t const i = x / 2, j = y / 2;
    if (y % 2 == 0) return x % 2 == 0 ? j * lc + i : lc * lr + j * hc + i;
    return x % 2 == 0 ? lr * columns + j * lc + i : lr * columns + hr * lc + j * hc + i;
  }
};

inline constexpr unsigned wavelet_levels = 3;

/// On the host: the transform of one component, in place; and its inverse. T is float (9/7) or
/// int32 (5/3).
template <class T>
void transform(std::span<T> component, level_shape shape);
template <class T>
void restore(std::span<T> component, level_shape shape);

extern template void transform(std::span<float>, level_shape);
extern template void transform(std::span<std::int32_t>, level_shape);
extern template void restore(std::span<float>, level_shape);
extern template void restore(std::span<std::int32_t>, level_shape);

}  // namespace gpufs::apps
