// How a file is shared out among the threadblocks of a kernel: each gets one contiguous strip of
// whole units.
#pragma once

#include <gpufs/device.hpp>

#include <apps/harness/input_file.hpp>

#include <cstdint>

namespace gpufs::apps {

struct strip {
  std::uint64_t begin;
  std::uint64_t end;
};

/// Block b's strip of `count` things: as many for each block, but for the last ones.
__host__ __device__ constexpr strip strip_of(std::uint64_t count, std::uint64_t blocks,
                                             std::uint64_t b) {
  std::uint64_t const each = (count + blocks - 1) / blocks;
  std::uint64_t const begin = b * each < count ? b * each : count;
  return {begin, count - begin < each ? count : begin + each};
}

/// The same for a section of a file, whose units stay whole: byte offsets in the file.
__host__ __device__ constexpr strip strip_of_section(file_section const& s, std::uint64_t blocks,
                                                     std::uint64_t b) {
  strip const units = strip_of((s.bytes + s.unit - 1) / s.unit, blocks, b);
  std::uint64_t const begin = units.begin * s.unit < s.bytes ? units.begin * s.unit : s.bytes;
  std::uint64_t const end = units.end * s.unit < s.bytes ? units.end * s.unit : s.bytes;
  return {s.offset + begin, s.offset + end};
}

}  // namespace gpufs::apps
