// Fixed numbers that host and device share, and the header of a frame.
#pragma once

#include <cstdint>

namespace gpufs::cache {

/// Entries per bucket: one per lane of a warp.
inline constexpr unsigned bucket_ways = 32;

/// Frames per bucket. At this load a bucket overflows about once in 10^11, and insertion reports
/// it.
inline constexpr unsigned frames_per_bucket = 8;

/// Header of a frame, in GPU memory. Only the owner of an evicting frame writes `version` and
/// `page`. Only the owner of a filling frame writes `outcome`.
struct alignas(32) frame_header {
  std::uint64_t state;  ///< see frame.hpp
  /// ready: bytes of the page that the file has; failed: -errno of the read
  std::uint32_t outcome;
  std::uint32_t referenced;  ///< hit since the hand last passed; only replacement::clock uses it
  std::uint64_t version;     ///< file version
  std::uint64_t page;        ///< page number in the file
};
static_assert(sizeof(frame_header) == 32);

/// Callers that wait for frames or for write buffers, first come, first served. In GPU memory.
struct alignas(128) line {
  std::uint64_t state;      ///< see line.hpp
  std::uint64_t served_at;  ///< device_clock_ns() when a caller last got what it waited for
};

}  // namespace gpufs::cache
