// Which ring, queue pair or replica serves a channel.
#pragma once

#include <gpufs/base/host_device.hpp>

#include <cstdint>

namespace gpufs::rpc {

// Channels are dealt out to places in turns: of each `places` channels in a row, every place has
// one. With the mere remainder, warps that have one channel each would use one place of 32, since
// their channels are 32 apart. One warp of each block would do so with other numbers, too. So each
// turn is rotated.

/// How far turn `turn` is rotated: the fractions of multiples of a number lie evenly if the number
/// is chosen well (Knuth, The Art of Computer Programming 3, section 6.4).
///
/// This one was searched for, with 32, 64, 128 and 256 callers at distances of 32, 64, .. 1024
/// channels. They put at most 3.4 times their share, rounded up, on one of 2 to 32 places, and 1.4
/// times on average. With the golden ratio these are 6 and 1.5.
GPUFS_HOST_DEVICE constexpr std::uint32_t rotation_of(std::uint32_t turn, std::uint32_t places) {
  return static_cast<std::uint32_t>(std::uint64_t{turn * 0x0c794bf5u} * places >> 32);
}

/// Returns the place, of `places`, that serves the channel. Channels at a regular distance spread
/// over all of them. A place serves at most ceil(channels / places).
GPUFS_HOST_DEVICE constexpr std::uint32_t place_of_channel(std::uint32_t channel,
                                                           std::uint32_t places) {
  return (channel % places + rotation_of(channel / places, places)) % places;
}

/// Returns the channel that `place` serves in turn `turn`. Inverse of place_of_channel().
GPUFS_HOST_DEVICE constexpr std::uint64_t channel_of_place(std::uint32_t place, std::uint32_t turn,
                                                           std::uint32_t places) {
  return std::uint64_t{turn} * places + (place + places - rotation_of(turn, places)) % places;
}

/// Returns the replica, of `replicas`, that a channel reads from. The multiplier is another one,
/// the golden ratio: channels that share a replica spread over its queue pairs.
GPUFS_HOST_DEVICE constexpr std::uint32_t replica_of_channel(std::uint32_t channel,
                                                             std::uint32_t replicas) {
  return static_cast<std::uint32_t>(std::uint64_t{channel * 0x9e3779b9u} * replicas >> 32);
}

}  // namespace gpufs::rpc
