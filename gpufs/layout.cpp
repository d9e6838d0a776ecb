#include <gpufs/layout.hpp>

#include <gpufs/cache/geometry.hpp>

#include <algorithm>
#include <bit>

namespace gpufs {

layout layout::of(config const& c) {
  // More page channels than warps can be resident on any GPU (a request belongs to one warp) would never be used.
  constexpr std::uint64_t most_page_channels = 16384;
  constexpr std::uint64_t staging_alignment = 4096;  // of each piece, so that every page can be read with O_DIRECT
  layout l{};
  l.frames = c.cache_size / c.page_size;
  l.buckets = std::max<std::uint64_t>(1, l.frames / frames_per_bucket);
  l.control_channels = 256;
  l.page_piece = std::max(c.page_size, staging_alignment);
  l.page_channels = std::clamp<std::uint64_t>(c.staging_size / l.page_piece, 1, most_page_channels);
  l.channels = l.control_channels + l.page_channels;
  l.ring_slots = std::bit_ceil(l.channels);
  l.staging_bytes = l.control_channels * control_piece + l.page_channels * l.page_piece;
  return l;
}

}  // namespace gpufs
