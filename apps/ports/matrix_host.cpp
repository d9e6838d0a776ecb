#include <apps/harness/extras.hpp>
#include <apps/harness/parallel.hpp>
#include <apps/ports/matrix_host.hpp>

namespace gpufs::apps {

bool one_thread_each(problem const& p) {
  return choice_option(p, "compute", {"strips", "orig"}) == 1;
}

input_file matrix_file(problem const& p, unsigned count, std::uint64_t n) {
  std::uint64_t const row = n * sizeof(float);
  input_file f;
  f.name = "a.f32";
  f.bytes = count * n * row;
  for (unsigned m = 0; m < count; ++m) f.sections.push_back({m * n * row, n * row, row});
  if (p.random) {
    f.fill = fill_elements<float>([seed = p.seed](std::uint64_t i) { return uniform(seed, i); });
  } else {
    f.fill = fill_elements<float>([n](std::uint64_t e) {
      std::uint64_t const i = e / n % n, j = e % n;
      return static_cast<float>(i) * static_cast<float>(j) / static_cast<float>(n);
    });
  }
  return f;
}

std::vector<double> host_rows(float const* a, std::uint64_t n, std::vector<double> const& x) {
  std::vector<double> result(n);
  parallel_for(n, 16, [&](std::uint64_t i) {
    double sum = 0;
    for (std::uint64_t j = 0; j < n; ++j) sum += static_cast<double>(a[i * n + j]) * x[j];
    result[i] = sum;
  });
  return result;
}

std::vector<double> host_columns(float const* a, std::uint64_t n, std::vector<double> const& w) {
  std::vector<double> result(n);
  parallel_ranges(n, 256, [&](std::uint64_t begin, std::uint64_t end) {
    for (std::uint64_t i = 0; i < n; ++i) {
      for (std::uint64_t j = begin; j < end; ++j)
        result[j] += static_cast<double>(a[i * n + j]) * w[i];
    }
  });
  return result;
}

}  // namespace gpufs::apps
