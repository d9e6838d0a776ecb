// An input file of an application: its size, how it is cut, and what is in it. Raw little-endian
// payload without a header.
#pragma once

#include <apps/common/generator.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace gpufs::apps {

/// A part of a file that the threadblocks share out among themselves: each reads a strip of it.
struct file_section {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  std::uint64_t unit = 1;  ///< bytes that no two blocks share: a row, a plane, a record
};

/// Sections that one run reads, over all its files, counted once for each time they are read.
inline constexpr unsigned most_sections = 8;

struct input_file {
  std::string name;
  std::uint64_t bytes = 0;
  std::vector<file_section> sections;  ///< they cover it, in order

  /// Writes bytes [offset, offset + to.size()) of the file; `offset` is a multiple of 1 MiB. Called
  /// by several threads at once.
  std::function<void(std::uint64_t offset, std::span<std::byte> to)> fill;

  std::string path;  ///< of a real file to be read as it is; `fill` is not used then
};

/// A file that is one section.
[[nodiscard]] inline input_file whole_file(
    std::string name, std::uint64_t bytes, std::uint64_t unit,
    std::function<void(std::uint64_t, std::span<std::byte>)> fill) {
  return {std::move(name), bytes, {{0, bytes, unit}}, std::move(fill), {}};
}

/// A fill function from a function of the element's index.
template <class T, class Element>
auto fill_elements(Element element) {
  return [element](std::uint64_t offset, std::span<std::byte> to) {
    std::uint64_t const first = offset / sizeof(T);
    for (std::uint64_t i = 0; i < to.size() / sizeof(T); ++i) {
      T const value = element(first + i);
      std::memcpy(to.data() + i * sizeof(T), &value, sizeof(T));
    }
  };
}

/// Uniform in [0, 1), with 24 random bits.
[[nodiscard]] constexpr float uniform(std::uint64_t seed, std::uint64_t i) {
  return static_cast<float>(generate(seed, i) >> 40) * 0x1p-24f;
}

/// The seed of an application's array number `array`.
[[nodiscard]] constexpr std::uint64_t array_seed(std::uint64_t seed, std::uint64_t array) {
  return seed ^ (array * 0xD1B54A32D192ED03);
}

static_assert(uniform(42, 0) == 0.74156487f && uniform(42, 1) == 0.159910381f &&
              uniform(42, 2) == 0.27860111f);

}  // namespace gpufs::apps
