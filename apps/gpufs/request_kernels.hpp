// A kernel that asks the daemon for a plan's bytes and leaves them in staging: no page cache,
// nothing pulled (paper 001, Fig. 3).
#pragma once

#include <gpufs/fs_ref.hpp>

#include <apps/gpufs/bench_kernels.hpp>

#include <cstdint>

namespace gpufs::apps {

/// Each warp of a block asks for a page of the block's current request at a time. Returns the
/// seconds it took, by the host's clock. Throws device_error, or std::runtime_error naming the
/// first request that failed.
[[nodiscard]] double run_requests(fs_ref const& fs, int fd, access_plan const& plan,
                                  bench_shape shape);

}  // namespace gpufs::apps
