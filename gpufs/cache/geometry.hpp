// Fixed numbers of the page table that host and device share.
#pragma once

#include <cstdint>

namespace gpufs {

/// Entries per bucket: one per lane of a warp.
inline constexpr unsigned bucket_ways = 32;

/// The table has one bucket per 8 frames: at that load a bucket overflows about once in 10^11, and insert() says so instead of spinning.
inline constexpr unsigned frames_per_bucket = 8;

/// Bytes of one frame's header.
inline constexpr unsigned frame_header_bytes = 32;

/// Bytes of what device code keeps of one write buffer, and of one file that is written.
inline constexpr unsigned write_state_bytes = 512;
inline constexpr unsigned shared_file_bytes = 32;

/// Hashed write counters, whatever the number and size of files.
inline constexpr std::uint32_t write_counter_count = 8192;

}  // namespace gpufs
