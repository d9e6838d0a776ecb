// What device code needs of a pool of channels.
#pragma once

#include <cstdint>

namespace gpufs::ring {
struct channel_state;
}

namespace gpufs::handle {

/// Channels: a completion word and a piece of staging each, owned by one device caller at a time.
/// See gpufs/ring/channel.hpp.
struct channel_pool_ref {
  ring::channel_state* states = nullptr;  ///< one per channel, in GPU memory
  std::uint32_t first = 0;                ///< channel number of the first
  std::uint32_t count = 0;
  std::uint64_t staging = 0;  ///< byte offset of the first channel's piece in the staging region
  std::uint64_t bytes = 0;    ///< size of each piece
  /// channels from where one warp starts to look to where the next one does
  std::uint32_t spacing = 1;
};

}  // namespace gpufs::handle
