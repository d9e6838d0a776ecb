// What device code needs of the least-recently-allocated queues.
#pragma once

#include <gpufs/base/host_device.hpp>

#include <cstdint>

namespace gpufs::cache {
struct lra_queue;
struct lra_totals;
}  // namespace gpufs::cache

namespace gpufs::handle {

/// See gpufs/cache/replacement/seat_queues.hpp.
struct lra_ref {
  /// Segments that a queue hands out as one run, at most.
  static constexpr std::uint32_t most_in_run = 4;
  static_assert(most_in_run <= 16, "the cursor has 4 bits for it");

  cache::lra_queue* queues = nullptr;  ///< one per seat; null under other policies
  cache::lra_totals* totals = nullptr;
  std::uint32_t* next_segment = nullptr;  ///< the lists' links, one per segment
  std::uint32_t segment_count = 0;
  std::uint32_t segment_frames = 0;  ///< frames per segment; the last one may have fewer

  /// The cursor of a run of `segments` segments, 1 to most_in_run, from `segment` on, at its start.
  /// Its parts: segments - 1 in the upper 4 bits, segment + 1 in the next 28 (a cache has at most
  /// 2^25 segments), the next frame of the run in the lower 32. 0 is no run.
  GPUFS_HOST_DEVICE static std::uint64_t start_of(std::uint32_t segment, std::uint32_t segments) {
    return std::uint64_t(segments - 1) << 60 | (std::uint64_t(segment) + 1) << 32;
  }
  GPUFS_HOST_DEVICE static std::uint32_t segments_of(std::uint64_t cursor) {
    return static_cast<std::uint32_t>(cursor >> 60) + 1;
  }
  GPUFS_HOST_DEVICE std::uint32_t frame_at(std::uint64_t cursor) const {
    auto const segment = static_cast<std::uint32_t>(cursor >> 32) & 0xfffffff;
    return (segment - 1) * segment_frames + static_cast<std::uint32_t>(cursor);
  }
  GPUFS_HOST_DEVICE bool used_up(std::uint64_t cursor, std::uint32_t frame_count) const {
    return cursor >> 32 == 0 ||
           static_cast<std::uint32_t>(cursor) >= segments_of(cursor) * segment_frames ||
           frame_at(cursor) >= frame_count;
  }
};

}  // namespace gpufs::handle
