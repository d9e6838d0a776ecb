#include <apps/harness/input_file.hpp>
#include <apps/mapping/files/srad_reference.hpp>

#include <cmath>

namespace gpufs::apps::workloads {

float srad_reference::start(std::uint64_t i) const { return std::exp(uniform(seed_, i)); }

/// What so many iterations need for a part: of each one, a row and a column before it, and two
/// behind it.
srad_reference::part srad_reference::around(part p, std::uint64_t times) const {
  return {p.top - std::min(p.top, times), std::min(n_, p.bottom + 2 * times),
          p.left - std::min(p.left, times), std::min(n_, p.right + 2 * times)};
}

srad_reference::picture srad_reference::picture_at_start(part p) const {
  picture made{p, {}};
  made.values.reserve((p.bottom - p.top) * p.width());
  for (std::uint64_t i = p.top; i < p.bottom; ++i)
    for (std::uint64_t j = p.left; j < p.right; ++j) made.values.push_back(start(i * n_ + j));
  return made;
}

diffusion srad_reference::diffusion_at(picture const& from, std::uint64_t i, std::uint64_t j,
                                       float q0) const {
  return diffuse(from.at(i, j), from.at(i == 0 ? 0 : i - 1, j), from.at(i + 1 == n_ ? i : i + 1, j),
                 from.at(i, j == 0 ? 0 : j - 1), from.at(i, j + 1 == n_ ? j : j + 1), q0);
}

srad_reference::picture srad_reference::next(picture const& from, part p, float q0) const {
  part const known{p.top, std::min(n_, p.bottom + 1), p.left, std::min(n_, p.right + 1)};
  std::vector<diffusion> all;
  all.reserve((known.bottom - known.top) * known.width());
  for (std::uint64_t i = known.top; i < known.bottom; ++i)
    for (std::uint64_t j = known.left; j < known.right; ++j)
      all.push_back(diffusion_at(from, i, j, q0));
  auto const at = [&](std::uint64_t i, std::uint64_t j) -> diffusion const& {
    return all[(i - known.top) * known.width() + (j - known.left)];
  };
  picture made{p, {}};
  made.values.reserve((p.bottom - p.top) * p.width());
  for (std::uint64_t i = p.top; i < p.bottom; ++i) {
    for (std::uint64_t j = p.left; j < p.right; ++j)
      made.values.push_back(diffused(from.at(i, j), at(i, j), at(i + 1 == n_ ? i : i + 1, j).c,
                                     at(i, j + 1 == n_ ? j : j + 1).c));
  }
  return made;
}

void srad_reference::prepare() {
  if (!noise_.empty()) return;
  part const region{0, srad_region, 0, srad_region};
  picture now = picture_at_start(around(region, iterations_));
  for (std::uint64_t k = 0; k < iterations_; ++k) {
    noise_.push_back(noise_of([&](std::uint64_t i, std::uint64_t j) { return now.at(i, j); }));
    now = next(now, around(region, iterations_ - k - 1), noise_.back());
  }
}

void srad_reference::elements(std::uint64_t first, std::span<double> to) const {
  std::uint64_t const last = first + to.size() - 1;
  part wanted{first / n_, last / n_ + 1, 0, n_};
  if (wanted.bottom == wanted.top + 1) {
    wanted.left = first % n_;
    wanted.right = last % n_ + 1;
  }
  picture now = picture_at_start(around(wanted, iterations_));
  for (std::uint64_t k = 0; k < iterations_; ++k)
    now = next(now, around(wanted, iterations_ - k - 1), noise_[k]);
  for (std::uint64_t i = 0; i < to.size(); ++i) to[i] = now.at((first + i) / n_, (first + i) % n_);
}

}  // namespace gpufs::apps::workloads
