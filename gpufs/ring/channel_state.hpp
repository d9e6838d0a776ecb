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
// Bit 0 says that the channel has an owner. A caller may set it without a look before, and learns
// from the former word whether it has become the owner. That of a quarantined channel gives it back
// as it was if the late answer is not there.
//
/// The daemon owns the completion word and the staging piece of a quarantined channel until it has
/// answered. So a late answer harms no request. It is a descriptor only if the daemon stopped when
/// the open was under way. Then the next holder of the channel closes it (close_late_open).
enum class channel_phase : std::uint32_t { free, busy, quarantined, examined };

/// One word, so that a single access takes the channel and says which sequence is next. Only the
/// functions of channel.hpp change it.
struct channel_state {
  /// Sequence of a request << 32 | channel_phase. It is that of the last request. Of a channel with
  /// an owner, it may be that of the request before.
  std::uint64_t word;
};

constexpr std::uint64_t state_word(channel_phase phase, std::uint32_t sequence) {
  return std::uint64_t(sequence) << 32 | static_cast<std::uint32_t>(phase);
}
constexpr channel_phase phase_of_state(std::uint64_t word) {
  return static_cast<channel_phase>(static_cast<std::uint32_t>(word));
}
/// Whether the channel has an owner: it is busy, or its late answer is looked for.
constexpr bool is_owned(std::uint64_t word) {
  return (word & static_cast<std::uint32_t>(channel_phase::busy)) != 0;
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
