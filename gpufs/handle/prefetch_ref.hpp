// What device code needs of the prefetch buffers.
#pragma once

#include <gpufs/handle/channel_pool_ref.hpp>

#include <cstdint>

namespace gpufs::prefetch {
struct readahead_state;
}

namespace gpufs::handle {

/// The prefetch buffers. See prefetcher/readahead.hpp.
struct prefetch_ref {
  prefetch::readahead_state* states = nullptr;  ///< one per seat; null = no prefetching
  channel_pool_ref channels;                    ///< one chunk each
  /// longest request: PAGE_SIZE + PREFETCH_SIZE, or the automatic window's unit
  std::uint64_t chunk_bytes = 0;
  std::uint32_t depth = 0;
  bool automatic = false;
};

}  // namespace gpufs::handle
