// The members of block files: controllers and their drives.
#pragma once

#include <gpufs/config.hpp>
#include <gpufs/nvme.hpp>
#include <gpufs/owner/block_file.hpp>

#include <nvme-controller/faults.hpp>

#include <memory>
#include <string>
#include <vector>

namespace gpufs::owner {

/// For tests: the fault plans of the members' controllers in the calling thread's next
/// filesystem::attach() of software_options. Members without one have no faults.
void inject_controller_faults(std::vector<std::shared_ptr<nvme_controller::fault_plan>> plans);

/// What members need so that kernels can drive queue pairs of theirs.
struct kernel_side {
  std::uint64_t channels = 0;            ///< of the filesystem
  nvme_host::memory_source memory = {};  ///< that host and device reach
  bool reaches_registers = false;        ///< kernels can ring doorbells of devices
};

/// Opens the members and makes a file of them, for attachment under `name`.
/// Throws std::invalid_argument for wrong options, std::runtime_error naming member and remedy.
[[nodiscard]] std::shared_ptr<block_file> make_block_file(std::string const& name,
                                                          nvme::software_options const& options,
                                                          config const& settings,
                                                          kernel_side const& kernels);
[[nodiscard]] std::shared_ptr<block_file> make_block_file(std::string const& name,
                                                          nvme::vfio_options const& options,
                                                          config const& settings,
                                                          kernel_side const& kernels);

}  // namespace gpufs::owner
