// `gpufs nvme SPEC identify|selftest`.
#pragma once

#include <cstdint>
#include <string>

namespace gpufs::apps {

struct nvme_options {
  std::string spec;
  std::string action;
  std::int64_t threads = 2;    ///< of a software controller
  bool threads_given = false;  ///< a drive refuses them
};

/// Prints what was found. Returns the exit status. Throws usage_error, and what the controller's
/// control plane throws.
int run_nvme(nvme_options const& o);

}  // namespace gpufs::apps
