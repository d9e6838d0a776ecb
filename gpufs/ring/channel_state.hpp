// The state of a channel, in GPU memory.
#pragma once

#include <cstdint>

namespace gpufs::ring {

//            acquire               release
//   free ----------------> busy ----------------> free
//                            | abandon (timed out)
//                            v
//                       quarantined --- acquire, once the late answer is there ---> busy
//
/// The daemon owns the completion word and the staging piece of a quarantined channel until it has
/// answered. So a late answer harms no request. If it is a descriptor, the next holder of the
/// channel closes it (close_late_open).
enum class channel_phase : std::uint32_t { free, busy, quarantined };

struct channel_state {
  std::uint32_t phase;     ///< a channel_phase; only the functions of channel.hpp change it
  std::uint32_t sequence;  ///< of the last request; only the holder writes
};

}  // namespace gpufs::ring
