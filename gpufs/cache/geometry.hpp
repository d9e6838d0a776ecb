// What host and device share of the page cache: fixed numbers, the header of a frame.
#pragma once

#include <cstdint>

namespace gpufs {

/// Entries per bucket: one per lane of a warp.
inline constexpr unsigned bucket_ways = 32;

/// The table has one bucket per 8 frames: at that load a bucket overflows about once in 10^11, and
/// insert() says so instead of spinning.
inline constexpr unsigned frames_per_bucket = 8;

/// One per frame, in GPU memory. `uid` and `page` are written only by the owner of an evicting
/// frame, `outcome` only by the owner of a filling one.
struct alignas(32) frame_header {
  std::uint64_t state;       ///< see frame.hpp
  std::uint32_t outcome;     ///< phase ready: bytes of the page that the file has; phase failed:
                             ///< -errno of the fetch
  std::uint32_t referenced;  ///< hit since the hand last passed; used by replacement::clock only
  std::uint64_t uid;         ///< file version
  std::uint64_t page;        ///< page number in the file
};
static_assert(sizeof(frame_header) == 32);

/// Bytes of what device code keeps of one write buffer, and of one file that is written.
inline constexpr unsigned write_state_bytes = 512;
inline constexpr unsigned shared_file_bytes = 32;

/// How many descriptors' records are loaded for all who want one at once, and the bytes that device
/// code keeps of one.
inline constexpr unsigned record_shares = 64;
inline constexpr unsigned record_share_bytes = 64;

/// Hashed write counters, whatever the number and size of files.
inline constexpr std::uint32_t write_counter_count = 8192;

}  // namespace gpufs
