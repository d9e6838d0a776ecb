// The host's side of GESUMMV, MVT, BICG and ATAX: their matrices, and products in double.
#pragma once

#include <apps/harness/port.hpp>

#include <cstdint>
#include <vector>

namespace gpufs::apps {

/// The option that chooses the computation.
[[nodiscard]] inline extra_option compute_option() {
  return {"compute", "strips",
          "strips: a warp per row, strips of columns; orig: a thread per row or column, as "
          "PolyBench has it"};
}
[[nodiscard]] bool one_thread_each(problem const& p);

/// `count` square matrices one after the other: uniform in [0, 1), or the suite's i * j / n.
[[nodiscard]] input_file matrix_file(problem const& p, unsigned count, std::uint64_t n);

/// On the host, in double: result[i] = sum of a[i][j] * x[j].
[[nodiscard]] std::vector<double> host_rows(float const* a, std::uint64_t n,
                                            std::vector<double> const& x);
/// result[j] = sum of a[i][j] * w[i].
[[nodiscard]] std::vector<double> host_columns(float const* a, std::uint64_t n,
                                               std::vector<double> const& w);

/// n elements f(0), f(1), ... as the device computes them, in double.
template <class F>
std::vector<double> as_doubles(std::uint64_t n, F f) {
  std::vector<double> all(n);
  for (std::uint64_t i = 0; i < n; ++i) all[i] = static_cast<double>(f(i));
  return all;
}

}  // namespace gpufs::apps
