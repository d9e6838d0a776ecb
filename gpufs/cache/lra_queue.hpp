// What the least-recently-allocated queues consist of, for host and device.
#pragma once

#include <gpufs/host_device.hpp>

#include <cstdint>

namespace gpufs {

/// The frames one context slot allocated: a list of segments, oldest first. All but `cursor` is
/// read and written under the lock
/// (`count` and `owned` are also looked at without it, as hints).
struct alignas(64) lra_queue {
  std::uint32_t lock;
  std::uint32_t owned;   ///< 1 while a context holds the slot
  std::uint32_t head;    ///< oldest segment; meaningful if count != 0
  std::uint32_t tail;    ///< newest, being handed out
  std::uint32_t count;   ///< segments in the list
  std::uint64_t cursor;  ///< (segment + 1) << 32 | next frame of it; 0 = none
};

struct alignas(64) lra_totals {
  std::uint32_t fresh;             ///< segments below it have been given to a queue once
  std::uint32_t unowned_segments;  ///< in queues that nobody owns
  std::uint32_t owners;            ///< queues that somebody owns
  std::uint32_t hint;              ///< where a segment was last found in another queue
};

struct lra_ref {
  lra_queue* queues = nullptr;  ///< queue_count, one per context slot; null under other policies
  lra_totals* totals = nullptr;
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

}  // namespace gpufs
