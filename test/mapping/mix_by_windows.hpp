// A file is mixed into another one by windows.
#pragma once

#include <gpufs/mapping.hpp>
#include <gpufs/mapping_windows.hpp>

#include <test/mapping/budgets.hpp>
#include <test/mapping/kernels.hpp>
#include <test/mapping/named_file.hpp>
#include <test/mapping/numbers.hpp>

#include <doctest/doctest.h>

#include <cstdint>

namespace gpufs::test {

/// Mixes the words of `in`, which are `content`, into `out` by windows of mebi / 2 words. `to` is
/// the file behind `out`, of zeros. Checks what it has then.
[[maybe_unused]] static void check_mix_by_windows(shared_memory& memory, mapping& in, mapping& out,
                                                  words const& content, named_file const& to) {
  int const error = for_each_window(memory, {{&in, access::read, 4}, {&out, access::read_write, 4}},
                                    [&](memory_window const& w) {
                                      launch({.grid = 4, .block = 64, .on = &w.on()}, mix_words,
                                             w.as<std::uint32_t>(1), w.as<std::uint32_t const>(0),
                                             std::uint64_t{0}, w.count, 0u);
                                    },
                                    {.items = mebi / 2});
  CHECK(error == 0);
  auto expected = content;
  for (std::uint64_t i = 0; i < expected.size(); ++i)
    expected[i] += static_cast<std::uint32_t>(i % (mebi / 2));
  CHECK(to.content() == expected);
}

}  // namespace gpufs::test
