// Looks at the machine: what is there, and the reason if something does not work.
#pragma once

#include <gpufs/config.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace gpufs::apps {

/// Something that works here, or does not.
struct ability {
  std::string name;
  bool works = false;
  std::string remark;  ///< why it does not, or with which limitation it does
};

struct host_facts {
  unsigned cores = 0;
  std::uint64_t memory_bytes = 0;
  std::string cpu;            ///< as Linux names it
  std::string kernel;         ///< "Linux 6.1.0"
  std::string locked_memory;  ///< "unlimited" or a size: what RLIMIT_MEMLOCK allows
};

[[nodiscard]] host_facts look_at_host();

/// io_uring, its registered buffers, pread threads, O_DIRECT in `folder`, cachestat.
[[nodiscard]] std::vector<ability> look_at_io(config const& settings, std::string const& folder);

/// Whether fault_handling::userfault works here. Needs a device.
[[nodiscard]] ability look_at_user_faults();
/// Whether objects can lie in managed memory.
[[nodiscard]] ability look_at_managed_memory();

/// The values of io_path. For each: what the validator says, whether pinned memory is available,
/// and whether a file in `folder` can be registered for the device.
[[nodiscard]] std::vector<ability> look_at_paths(config const& settings, std::string const& folder);

}  // namespace gpufs::apps
