// Data of the least-recently-allocated queues, for host and device.
#pragma once

#include <cstdint>

namespace gpufs::cache {

/// The frames that one seat allocated: a list of segments, oldest first. The lock protects all
/// members but `cursor`. `count` and `owned` are also read without it, as hints.
struct alignas(64) lra_queue {
  std::uint32_t lock;
  std::uint32_t owned;   ///< 1 while a context has the seat
  std::uint32_t head;    ///< oldest segment; valid if count != 0
  std::uint32_t tail;    ///< newest segment; it ends the run that is being handed out
  std::uint32_t count;   ///< segments in the list
  std::uint64_t cursor;  ///< the run and its next frame (lra_ref::start_of()); 0 = none
};

struct alignas(64) lra_totals {
  std::uint32_t fresh;             ///< segments below it have been in a queue
  std::uint32_t unowned_segments;  ///< segments in queues without an owner
  std::uint32_t owners;            ///< queues with an owner
  std::uint32_t hint;              ///< the other queue that last gave a segment
  std::uint32_t used;              ///< queues from it on never had an owner
};

}  // namespace gpufs::cache
