#include <apps/harness/arrays.hpp>
#include <apps/harness/parallel.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <utility>

namespace gpufs::apps {

namespace {

template <class T>
bool close(T got, T wanted, tolerance t) {
  if (t.absolute == 0 && t.relative == 0) return std::memcmp(&got, &wanted, sizeof(T)) == 0;
  auto const r = static_cast<double>(wanted);
  return std::abs(static_cast<double>(got) - r) <=
         t.absolute + t.relative * std::abs(r);  // false for NaN
}

template <class T>
std::string first_difference(host_outputs const& got, host_outputs const& wanted, std::size_t array,
                             bool exact) {
  auto const a = got.as<T>(array);
  auto const b = wanted.as<T>(array);
  output_array const& shape = got.shapes()[array];
  tolerance const allowed = exact ? tolerance{} : wanted.shapes()[array].allowed;
  std::uint64_t const first =
      parallel_find(a.size(), [&](std::uint64_t i) { return !close(a[i], b[i], allowed); });
  if (first == a.size()) return {};
  if (allowed.absolute + allowed.relative > 0 && !std::isfinite(static_cast<double>(b[first]))) {
    return fmt::format(
        "{}[{}] is {} and should be {}, which cannot be checked: the input has a NaN, an infinity "
        "or a number too large",
        shape.name, first, a[first], b[first]);
  }
  return fmt::format("{}[{}] is {}, not {}", shape.name, first, a[first], b[first]);
}

}  // namespace

host_outputs::host_outputs(std::vector<output_array> shapes) : shapes_(std::move(shapes)) {
  for (auto const& s : shapes_) bytes_.emplace_back(s.bytes());
}

std::string difference(host_outputs const& got, host_outputs const& wanted, bool exact) {
  for (std::size_t i = 0; i < got.shapes().size(); ++i) {
    std::string found;
    switch (got.shapes()[i].type) {
      case element::f32: found = first_difference<float>(got, wanted, i, exact); break;
      case element::i32: found = first_difference<std::int32_t>(got, wanted, i, exact); break;
      case element::i16: found = first_difference<std::int16_t>(got, wanted, i, exact); break;
      case element::u8: found = first_difference<std::uint8_t>(got, wanted, i, exact); break;
    }
    if (!found.empty()) return found;
  }
  return {};
}

}  // namespace gpufs::apps
