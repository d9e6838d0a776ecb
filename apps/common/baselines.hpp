// Hand-written code that brings the same files to the device, without gpufs.
#pragma once

#include <gpufs/device.hpp>

#include <apps/common/host_file.hpp>

#include <cstddef>
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

/// Called with the bytes on the device, once they are all there and the clock has been stopped.
using delivered = std::function<void(buffer<std::byte> const& memory)>;

/// The same for records of `record` bytes at `offsets`, which come to lie one behind the other.
/// `check` may be empty.
[[nodiscard]] double measure_records_GBps(host_file const& file,
                                          std::vector<std::uint64_t> const& offsets,
                                          std::uint64_t record, unsigned threads,
                                          std::uint64_t chunk_bytes, delivered const& check);

/// The best of 8 and 16 threads with chunks of 1 to 16 MiB. `prepare` is called before each.
[[nodiscard]] double measure_best_pipelined_GBps(std::vector<file_part> const& parts,
                                                 std::function<void()> const& prepare);

}  // namespace gpufs::apps
