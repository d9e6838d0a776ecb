// How much of everything a filesystem has: derived from the settings, in one place.
#pragma once

#include <gpufs/config.hpp>

#include <cstdint>

namespace gpufs::owner {

/// Bytes of a control channel's staging: a path of PATH_MAX, or an answer.
inline constexpr std::uint64_t control_piece = 4096;

struct layout {
  std::uint64_t frames;
  std::uint64_t buckets;
  std::uint64_t segment_frames;  ///< frames per segment of the least-recently-allocated queues
  std::uint64_t segments;
  std::uint64_t control_channels;
  std::uint64_t page_channels;
  std::uint64_t page_piece;   ///< bytes of staging per page channel
  std::uint64_t chunk_bytes;  ///< longest prefetch request; 0 = prefetching is off
  std::uint64_t chunk_piece;  ///< bytes of staging per chunk channel
  std::uint64_t chunk_channels;
  std::uint64_t channels;       ///< all kinds
  std::uint64_t rings;          ///< one per daemon thread
  std::uint64_t ring_slots;     ///< of each ring: a power of two >= its channels
  std::uint64_t staging_bytes;  ///< all pieces
  std::uint64_t write_buffers;  ///< pages that can be dirty at once
  std::uint32_t write_hands;    ///< searches for write buffers; a power of two
  std::uint32_t kept_groups;    ///< of frames, for the count of kept ones; a power of two
  std::uint64_t window_budget;  ///< most bytes of files registered at once; 0 = none are
  /// of the table of file windows, a power of two; 0 = files are not registered
  std::uint64_t window_entries;
  std::uint64_t element_counts;  ///< words that count straight loads; 0 = files are not registered
  std::uint32_t straight_loads;  ///< of a page's elements before the page is brought in

  /// For settings that validate() accepts, on a host with `host_memory` bytes.
  [[nodiscard]] static layout of(config const& c, unsigned daemon_threads,
                                 std::uint64_t host_memory);
};

}  // namespace gpufs::owner
