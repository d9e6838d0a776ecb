// srad_v2: what happens to an element, and the same for any part of the picture on the CPU. For .cu
// files.
#pragma once

#include <gpufs/device.hpp>

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace gpufs::apps::workloads {

inline constexpr std::uint64_t srad_region = 128;  ///< rows and columns whose noise is measured

/// The diffusion coefficient of an element, and its differences to its neighbours.
struct diffusion {
  float c, north, south, west, east;
};

__host__ __device__ inline diffusion diffuse(float j, float north, float south, float west,
                                             float east, float q0) {
  float const dn = north - j, ds = south - j, dw = west - j, de = east - j;
  float const gradient = (dn * dn + ds * ds + dw * dw + de * de) / (j * j);
  float const laplace = (dn + ds + dw + de) / j;
  float const numerator = 0.5f * gradient - laplace * laplace / 16.0f;
  float const root = 1.0f + 0.25f * laplace;
  float const q = numerator / (root * root);
  float const c = 1.0f / (1.0f + (q - q0) / (q0 * (1.0f + q0)));
  return {c < 0.0f ? 0.0f : c > 1.0f ? 1.0f : c, dn, ds, dw, de};
}

/// The element's new value. c_south, c_east: coefficients of the elements below and next to it.
__host__ __device__ inline float diffused(float j, diffusion const& d, float c_south,
                                          float c_east) {
  float const lambda = 0.5f;
  float const sum = d.c * d.north + c_south * d.south + d.c * d.west + c_east * d.east;
  return j + 0.25f * lambda * sum;
}

/// var / mean^2 of the region. value(i, j): an element of the picture.
template <class Value>
[[nodiscard]] float noise_of(Value const& value) {
  double sum = 0, squares = 0;
  for (std::uint64_t i = 0; i < srad_region; ++i) {
    for (std::uint64_t j = 0; j < srad_region; ++j) {
      double const v = value(i, j);
      sum += v;
      squares += v * v;
    }
  }
  double const count = static_cast<double>(srad_region * srad_region), mean = sum / count;
  return static_cast<float>((squares / count - mean * mean) / (mean * mean));
}

class srad_reference {
 public:
  srad_reference(std::uint64_t n, std::uint64_t iterations, std::uint64_t seed)
      : n_(n), iterations_(iterations), seed_(seed) {}

  [[nodiscard]] std::uint64_t n() const { return n_; }

  /// Element `i` of the picture before the first iteration.
  [[nodiscard]] float start(std::uint64_t i) const;

  /// What all elements need: the noise before each iteration.
  void prepare();

  /// Elements of the picture after the last iteration, from `first` on.
  void elements(std::uint64_t first, std::span<double> to) const;

 private:
  /// Rows [top, bottom) and columns [left, right).
  struct part {
    std::uint64_t top, bottom, left, right;
    [[nodiscard]] std::uint64_t width() const { return right - left; }
  };
  struct picture {
    part where;
    std::vector<float> values;
    [[nodiscard]] float at(std::uint64_t i, std::uint64_t j) const {
      return values[(i - where.top) * where.width() + (j - where.left)];
    }
  };

  [[nodiscard]] part around(part p, std::uint64_t times) const;
  [[nodiscard]] picture picture_at_start(part p) const;
  [[nodiscard]] diffusion diffusion_at(picture const& from, std::uint64_t i, std::uint64_t j,
                                       float q0) const;
  [[nodiscard]] picture next(picture const& from, part p, float q0) const;

  std::uint64_t n_, iterations_, seed_;
  std::vector<float> noise_;
};

}  // namespace gpufs::apps::workloads
