// Hand-written code that brings the same files to the device, without gpufs.
#pragma once

#include <apps/common/host_file.hpp>

#include <cstdint>
#include <functional>
#include <vector>

namespace gpufs::apps {

/// The first `bytes` bytes of a file.
struct file_part {
  host_file const* file;
  std::uint64_t bytes;
};

/// One thread reads everything into touched pageable memory, then one copy brings it to the device:
/// bytes per second / 1e9. Throws std::system_error if a file cannot be read, device_error if the
/// device has no room for it all.
[[nodiscard]] double measure_cpuio_GBps(std::vector<file_part> const& parts);

/// `threads` threads, each with two pinned chunks: one is read into while the other is copied to
/// the device. Errors as above.
[[nodiscard]] double measure_pipelined_GBps(std::vector<file_part> const& parts, unsigned threads,
                                            std::uint64_t chunk_bytes);

/// The best of 8 and 16 threads with chunks of 1 to 16 MiB. `prepare` is called before each.
[[nodiscard]] double measure_best_pipelined_GBps(std::vector<file_part> const& parts,
                                                 std::function<void()> const& prepare);

}  // namespace gpufs::apps
