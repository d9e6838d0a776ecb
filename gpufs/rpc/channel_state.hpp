// The state of a channel in GPU memory.
#pragma once

#include <cstdint>

namespace gpufs {

//            acquire               release
//   free ----------------> busy ----------------> free
//                            | abandon (timed out)
//                            v
//                       quarantined --- acquire, once the late answer is there ---> busy
//
/// A quarantined channel's completion word and staging belong to the daemon until it has answered:
/// a late answer lands where nobody looks before the next holder, who closes the descriptor if it
/// is one (close_late_open).
enum class channel_phase : std::uint32_t { free, busy, quarantined };

struct channel_state {
  std::uint32_t phase;     ///< a channel_phase; changed only by the transitions in client.hpp
  std::uint32_t sequence;  ///< of the last request; written only by the holder
};

}  // namespace gpufs
