// The limit of random reads: a kernel reads the same chunks from pinned host memory, without any
// page cache.
#pragma once

#include <apps/bench/access_plan.hpp>

#include <cstddef>
#include <cstdint>

namespace gpufs::apps {

/// Reads the chunks of a random plan from `bytes` bytes of pinned memory, one warp per chunk. At
/// most the first 8 GiB are pinned; offsets beyond wrap around.
/// Returns bytes per second / 1e9, the median of three. Counts chunks under 16 bytes, and the last
/// bytes of longer ones, as read. Throws device_error if there is no memory for it.
[[nodiscard]] double measure_random_pull(std::uint64_t bytes, access_plan const& plan);

/// The same with pinned memory of the caller's, of at least plan.request and 16 bytes. The plan is
/// random or strided.
[[nodiscard]] double measure_pull(std::byte const* pinned, std::uint64_t pinned_bytes,
                                  access_plan const& plan);

}  // namespace gpufs::apps
