// What device code needs of the page cache.
#pragma once

#include <gpufs/config.hpp>
#include <gpufs/handle/lra_ref.hpp>

#include <cstddef>
#include <cstdint>

namespace gpufs::cache {
struct frame_header;
struct line;
}  // namespace gpufs::cache

namespace gpufs::handle {

/// Pages a frame can be found by, the frames, and the state of their replacement. See gpufs/cache/.
///
/// A look-up loads the first four members, which lie in one 32-byte sector, and then `page_shift`.
/// A sector that has left the L1 costs a look-up a trip to the L2.
struct alignas(64) page_cache_ref {
  std::uint64_t* buckets = nullptr;  ///< bucket_count x 32 entries
  std::uint64_t bucket_count = 0;
  cache::frame_header* headers = nullptr;  ///< frame_count
  std::byte* frames = nullptr;             ///< frame_count << page_shift bytes
  std::uint32_t page_shift = 0;
  std::uint32_t frame_count = 0;
  replacement policy = replacement::fifo;
  std::uint32_t* bucket_locks = nullptr;  ///< bucket_count
  std::uint64_t* sweep_hand = nullptr;    ///< next candidate of the global sweep
  cache::line* line = nullptr;            ///< the frame line: callers that wait for a frame
  lra_ref lra;
};

}  // namespace gpufs::handle
