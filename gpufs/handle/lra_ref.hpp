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
  cache::lra_queue* queues = nullptr;  ///< queue_count, one per seat; null under other policies
  cache::lra_totals* totals = nullptr;
  std::uint32_t* next_segment = nullptr;  ///< the lists' links, one per segment
  std::uint32_t queue_count = 0;
  std::uint32_t segment_count = 0;
  std::uint32_t segment_frames = 0;  ///< frames per segment; the last one may have fewer

  GPUFS_HOST_DEVICE static std::uint64_t start_of(std::uint32_t segment) {
    return (std::uint64_t(segment) + 1) << 32;
  }
  GPUFS_HOST_DEVICE std::uint32_t frame_at(std::uint64_t cursor) const {
    return (static_cast<std::uint32_t>(cursor >> 32) - 1) * segment_frames +
           static_cast<std::uint32_t>(cursor);
  }
  GPUFS_HOST_DEVICE bool used_up(std::uint64_t cursor, std::uint32_t frame_count) const {
    return cursor >> 32 == 0 || static_cast<std::uint32_t>(cursor) >= segment_frames ||
           frame_at(cursor) >= frame_count;
  }
};

}  // namespace gpufs::handle
