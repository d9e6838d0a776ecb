// The rates of the storage under a file, past the OS page cache.
#pragma once

#include <apps/common/host_file.hpp>

#include <cstdint>
#include <optional>
#include <string>

namespace gpufs::apps {

struct storage_limits {
  /// io_uring with O_DIRECT: 2 rings, 128 reads of 256 KiB in flight on each
  std::optional<double> sequential_GBps;
  std::optional<double> random_iops;  ///< the same with random reads of 4 KiB and 4 rings
  std::string why_not;                ///< why they are missing, if they are
};

/// Reads at most `most_bytes` of the file sequentially, then random chunks for at most the same
/// time. Does not throw if the system refuses io_uring or O_DIRECT; `why_not` says so.
[[nodiscard]] storage_limits measure_storage_limits(host_file const& file, std::uint64_t most_bytes,
                                                    std::uint64_t seed);

/// Bytes of the smallest reads that are measured.
inline constexpr std::uint64_t smallest_read = 4 << 10;

/// Reads the whole file sequentially as for sequential_GBps, except the rest behind the last whole
/// chunk. Chunks are smallest_read long if the file is shorter than 256 KiB. Returns bytes per
/// second.
/// Throws std::system_error if the system refuses io_uring or O_DIRECT, or if there is no whole
/// chunk (EINVAL).
[[nodiscard]] double read_past_page_cache(host_file const& file);

/// Why io_uring, or registering buffers of `bytes` bytes with it, is refused; empty where it works.
struct uring_facts {
  std::string refused;
  std::string buffers_refused;
};
[[nodiscard]] uring_facts look_at_uring(std::uint64_t bytes);

/// Reads the file's first bytes past the OS page cache. Returns why that is refused, empty if it
/// works.
[[nodiscard]] std::string try_direct_read(host_file const& file);

}  // namespace gpufs::apps
