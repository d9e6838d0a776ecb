// What the storage under a file can do, past the OS page cache.
#pragma once

#include <apps/common/host_file.hpp>

#include <cstdint>
#include <optional>
#include <string>

namespace gpufs::apps {

struct storage_limits {
  std::optional<double>
      sequential_GBps;  ///< io_uring with O_DIRECT: 2 rings, 128 reads of 256 KiB in flight on each
  std::optional<double> random_iops;  ///< the same with random reads of 4 KiB and 4 rings
  std::string why_not;                ///< why they are missing, if they are
};

/// Reads at most `most_bytes` of the file sequentially, then random pieces of it for at most as
/// long again. Never throws for what the system refuses (io_uring, O_DIRECT): `why_not` tells.
[[nodiscard]] storage_limits measure_storage_limits(host_file const& file, std::uint64_t most_bytes,
                                                    std::uint64_t seed);

/// Bytes of the smallest reads that are measured.
inline constexpr std::uint64_t smallest_read = 4 << 10;

/// Reads all of the file sequentially as for sequential_GBps, in pieces of smallest_read if it is
/// shorter than one of 256 KiB; not what is left of the last piece. Returns the bytes per second.
/// Throws std::system_error where the system refuses that (io_uring, O_DIRECT), or there is no
/// whole piece (EINVAL).
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
