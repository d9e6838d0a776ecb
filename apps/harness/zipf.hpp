// Zipf's law: random requests that hit few chunks often.
#pragma once

#include <apps/common/generator.hpp>
#include <apps/harness/parallel.hpp>

#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

namespace gpufs::apps {

/// Ranks 1 to n, rank k with a probability proportional to k^-theta: exact for any n and theta > 0,
/// by rejection-inversion (Hoermann and Derflinger 1996), without tables.
class zipf_ranks {
 public:
  zipf_ranks(std::uint64_t n, double theta)
      : n_(static_cast<double>(n)),
        theta_(theta),
        low_(area(1.5) - 1),
        high_(area(n_ + 0.5)),
        sure_(2 - place(area(2.5) - std::pow(2, -theta))) {}

  /// Draw number `i` of the sequence that belongs to `seed`; it depends on nothing else.
  [[nodiscard]] std::uint64_t rank(std::uint64_t seed, std::uint64_t i) const {
    for (std::uint64_t attempt = 0;; ++attempt) {
      double const unit =
          (static_cast<double>(generate(generate(seed, i), attempt) >> 11) + 0.5) * 0x1p-53;
      double const u = high_ + unit * (low_ - high_);
      double const x = place(u);
      double const k = std::fmin(std::fmax(std::round(x), 1), n_);
      if (k - x <= sure_ || u >= area(k + 0.5) - std::pow(k, -theta_))
        return static_cast<std::uint64_t>(k);
    }
  }

 private:
  /// The integral of x^-theta, and its inverse; both keep their precision where theta is near 1.
  [[nodiscard]] double area(double x) const {
    double const t = (1 - theta_) * std::log(x);
    return std::fabs(t) < 1e-8 ? std::log(x) * (1 + t / 2) : std::expm1(t) / (1 - theta_);
  }
  [[nodiscard]] double place(double area) const {
    double const t = (1 - theta_) * area;
    return std::exp(std::fabs(t) < 1e-8 ? area * (1 - t / 2) : std::log1p(t) / (1 - theta_));
  }

  double n_, theta_;
  double low_, high_;  // of the area that draws lie in
  double sure_;        // a point that far below its rank needs no second look
};

/// The chunk of a rank. Chunks are permuted, so that neighbours in rank are not neighbours in the
/// file.
[[nodiscard]] constexpr std::uint64_t range_of_rank(std::uint64_t rank, std::uint64_t ranges) {
  std::uint64_t factor = (ranges / 2 + ranges / 8) | 1;
  while (std::gcd(factor, ranges) != 1) factor += 2;
  return static_cast<std::uint64_t>(static_cast<unsigned __int128>(rank - 1) * factor % ranges);
}

/// The ranges that `draws` requests ask for, numbers below `ranges` <= 2^32.
[[nodiscard]] inline std::vector<std::uint32_t> zipf_draws(std::uint64_t ranges, double theta,
                                                           std::uint64_t draws,
                                                           std::uint64_t seed) {
  zipf_ranks const ranks(ranges, theta);
  std::vector<std::uint32_t> all(draws);
  parallel_for(draws, 1 << 14, [&](std::uint64_t i) {
    all[i] = static_cast<std::uint32_t>(range_of_rank(ranks.rank(seed, i), ranges));
  });
  return all;
}

}  // namespace gpufs::apps
