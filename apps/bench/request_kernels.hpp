// A kernel that requests the bytes of a plan from the daemon and leaves them in staging. It uses no
// page cache and pulls nothing (GPUfs readahead paper, Fig. 3).
#pragma once

#include <gpufs/fs_ref.hpp>

#include <apps/bench/kernels.hpp>

#include <cstdint>

namespace gpufs::apps {

/// Each warp of a block requests one page of the current request of the block at a time. Returns
/// the seconds it took, by the clock of the host.
/// Throws device_error, or std::runtime_error naming the first request that failed.
[[nodiscard]] double run_requests(fs_ref const& fs, int fd, access_plan const& plan,
                                  bench_shape shape);

}  // namespace gpufs::apps
