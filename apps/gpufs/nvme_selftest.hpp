// Reads through NVMe queues from a kernel, and checks them.
#pragma once

#include <nvme-host/control_plane.hpp>

#include <cstdint>

namespace gpufs::apps {

struct nvme_selftest_options {
  std::uint32_t queue_pairs = 2;
  std::uint32_t depth = 1024;
  std::uint32_t blocks = 8;    ///< of the grid
  std::uint32_t threads = 64;  ///< of a block
  std::uint32_t rounds = 16;   ///< of each thread
  bool relay = false;          ///< a thread of the host passes on the doorbells
};

struct nvme_selftest_result {
  std::uint64_t reads = 0;      ///< that succeeded
  std::uint64_t differing = 0;  ///< pairs of reads of the same blocks whose bytes differ
  std::uint64_t failed = 0;
  std::int32_t first_error = 0;  ///< of a read that failed
  bool end_refused = false;      ///< a read behind the end failed with -EIO
  std::uint64_t doorbells = 0;
  std::uint64_t strays = 0;
  double seconds = 0;
};

/// Each thread reads random blocks twice: 4 KiB by one command, and the same blocks one by one. It
/// compares the bytes, which differed before. Nothing is written. Throws controller_error or
/// device_error.
[[nodiscard]] nvme_selftest_result run_nvme_selftest(nvme_host::control_plane& plane,
                                                     nvme_host::namespace_identity const& blocks,
                                                     nvme_selftest_options const& o);

}  // namespace gpufs::apps
