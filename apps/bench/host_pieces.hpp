// Hand-written code that brings the pieces of a plan to the device, without gpufs.
#pragma once

#include <apps/bench/access_plan.hpp>
#include <apps/common/host_file.hpp>

#include <cstdint>

namespace gpufs::apps {

/// `threads` threads gather the requests of a plan with pread into pinned chunks of 1 MiB; each
/// copies a full chunk to the device while it fills its other one. Returns bytes per second / 1e9.
/// Throws std::system_error if the file cannot be read, device_error.
[[nodiscard]] double measure_piece_copies_GBps(host_file const& file, access_plan const& plan,
                                               unsigned threads);

/// One thread reads a request of a plan with pread into pinned memory, copies it to the device and
/// waits, one after the other. Returns the median in microseconds. Errors as above.
[[nodiscard]] double measure_copy_and_wait_us(host_file const& file, access_plan const& plan);

}  // namespace gpufs::apps
