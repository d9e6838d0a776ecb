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
/// answered. So a late answer harms no request. It is a descriptor only if the daemon stopped when
/// the open was under way. Then the next holder of the channel closes it (close_late_open).
enum class channel_phase : std::uint32_t { free, busy, quarantined };

/// One word, so that a single compare-and-swap takes the channel and draws the next sequence. Only
/// the functions of channel.hpp change it.
struct channel_state {
  std::uint64_t word;  ///< sequence of the last request << 32 | channel_phase
};

constexpr std::uint64_t state_word(channel_phase phase, std::uint32_t sequence) {
  return std::uint64_t(sequence) << 32 | static_cast<std::uint32_t>(phase);
}
constexpr channel_phase phase_of_state(std::uint64_t word) {
  return static_cast<channel_phase>(static_cast<std::uint32_t>(word));
}
constexpr std::uint32_t sequence_of_state(std::uint64_t word) {
  return static_cast<std::uint32_t>(word >> 32);
}
/// The sequence of the request after that with `sequence`. New completion words hold 0, so no
/// request has it.
constexpr std::uint32_t next_sequence(std::uint32_t sequence) {
  return sequence + 1 == 0 ? 1 : sequence + 1;
}

}  // namespace gpufs::ring
