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

/// Opens the members and makes a file of them, for attachment under `name`.
/// Throws std::invalid_argument for wrong options, std::runtime_error naming member and remedy.
[[nodiscard]] std::shared_ptr<block_file const> make_block_file(
    std::string const& name, nvme::software_options const& options, config const& settings);
[[nodiscard]] std::shared_ptr<block_file const> make_block_file(std::string const& name,
                                                                nvme::vfio_options const& options,
                                                                config const& settings);

}  // namespace gpufs::owner
