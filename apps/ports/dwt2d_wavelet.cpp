#include <apps/harness/parallel.hpp>
#include <apps/ports/dwt2d_wavelet.hpp>

#include <algorithm>
#include <type_traits>

namespace gpufs::apps {

namespace {

template <class T>
constexpr bool is_97 = std::is_same_v<T, float>;

/// One row or column.
template <class T>
void transform_line(std::vector<T>& x) {
  std::uint64_t const n = x.size();
  auto const step = [&](lifting_step s) {
    for (std::uint64_t p = s.parity; p < n; p += 2)
      x[p] = lifted(x[p], x[before(p)], x[after(p, n)], s);
  };
  if constexpr (is_97<T>) {
    for (auto const& s : steps_97) step(s);
    for (std::uint64_t p = 0; p < n; ++p) x[p] *= p % 2 == 0 ? 1 / scale_97 : scale_97;
  } else {
    for (auto const& s : steps_53) step(s);
  }
}

template <class T>
void restore_line(std::vector<T>& x) {
  std::uint64_t const n = x.size();
  auto const step = [&](lifting_step s) {
    for (std::uint64_t p = s.parity; p < n; p += 2)
      x[p] = unlifted(x[p], x[before(p)], x[after(p, n)], s);
  };
  if constexpr (is_97<T>) {
    for (std::uint64_t p = 0; p < n; ++p) x[p] *= p % 2 == 0 ? scale_97 : 1 / scale_97;
    for (auto s = std::rbegin(steps_97); s != std::rend(steps_97); ++s) step(*s);
  } else {
    for (auto s = std::rbegin(steps_53); s != std::rend(steps_53); ++s) step(*s);
  }
}

template <class T, class Line>
void each_row(std::vector<T>& m, level_shape s, Line const& line) {
  parallel_ranges(s.rows, 16, [&](std::uint64_t begin, std::uint64_t end) {
    std::vector<T> x(s.columns);
    for (std::uint64_t y = begin; y < end; ++y) {
      auto const row = m.begin() + static_cast<std::ptrdiff_t>(y * s.columns);
      std::copy_n(row, s.columns, x.begin());
      line(x);
      std::ranges::copy(x, row);
    }
  });
}

/// Sixteen columns at a time: a cache line of each row.
template <class T, class Line>
void each_column(std::vector<T>& m, level_shape s, Line const& line) {
  parallel_ranges(s.columns, 16, [&](std::uint64_t begin, std::uint64_t end) {
    std::vector<std::vector<T>> x(end - begin, std::vector<T>(s.rows));
    for (std::uint64_t y = 0; y < s.rows; ++y) {
      for (std::uint64_t c = begin; c < end; ++c) x[c - begin][y] = m[y * s.columns + c];
    }
    for (auto& column : x) line(column);
    for (std::uint64_t y = 0; y < s.rows; ++y) {
      for (std::uint64_t c = begin; c < end; ++c) m[y * s.columns + c] = x[c - begin][y];
    }
  });
}

}  // namespace

template <class T>
void transform(std::span<T> component, level_shape shape) {
  for (unsigned level = 0; level < wavelet_levels; ++level, shape = shape.next()) {
    std::vector<T> m(component.begin(),
                     component.begin() + static_cast<std::ptrdiff_t>(shape.columns * shape.rows));
    if constexpr (is_97<T>) {
      each_row(m, shape, transform_line<T>);
      each_column(m, shape, transform_line<T>);
    } else {
      each_column(m, shape, transform_line<T>);
      each_row(m, shape, transform_line<T>);
    }
    parallel_for(shape.rows, 16, [&](std::uint64_t y) {
      for (std::uint64_t x = 0; x < shape.columns; ++x)
        component[shape.place(x, y)] = m[y * shape.columns + x];
    });
  }
}

template <class T>
void restore(std::span<T> component, level_shape shape) {
  std::vector<level_shape> levels{shape};
  while (levels.size() < wavelet_levels) levels.push_back(levels.back().next());
  for (; !levels.empty(); levels.pop_back()) {
    level_shape const s = levels.back();
    std::vector<T> m(s.columns * s.rows);
    parallel_for(s.rows, 16, [&](std::uint64_t y) {
      for (std::uint64_t x = 0; x < s.columns; ++x) m[y * s.columns + x] = component[s.place(x, y)];
    });
    if constexpr (is_97<T>) {
      each_column(m, s, restore_line<T>);
      each_row(m, s, restore_line<T>);
    } else {
      each_row(m, s, restore_line<T>);
      each_column(m, s, restore_line<T>);
    }
    std::ranges::copy(m, component.begin());
  }
}

template void transform(std::span<float>, level_shape);
template void transform(std::span<std::int32_t>, level_shape);
template void restore(std::span<float>, level_shape);
template void restore(std::span<std::int32_t>, level_shape);

}  // namespace gpufs::apps
