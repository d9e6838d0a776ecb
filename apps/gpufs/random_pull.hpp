// What random reads are held against: the same pieces, read by a kernel out of pinned host memory
// without any page cache.
#pragma once

#include <apps/gpufs/access_plan.hpp>

#include <cstdint>

namespace gpufs::apps {

/// Reads the pieces of a random plan out of `bytes` bytes of pinned memory (or the first 8 GiB of
/// them: pieces beyond lie there in turn), a warp each, into memory of its own: bytes per second /
/// 1e9, the median of three. Pieces shorter than 16 bytes, and the rest of others, count as read.
/// Throws device_error if there is no memory for it.
[[nodiscard]] double measure_random_pull(std::uint64_t bytes, access_plan const& plan);

}  // namespace gpufs::apps
