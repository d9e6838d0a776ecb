// Names of NVMe controllers on the command line.
#pragma once

#include <apps/gpufs/machine.hpp>

#include <nvme-host/controller_link.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace gpufs::apps {

/// A controller that a user named: mem:SIZE, soft:PATH, or vfio:ADDRESS, with or without `nvme:`
/// before it.
/// mem   Zeroed memory behind a software controller.
/// soft  A file or a block device behind a software controller; it is only read.
/// vfio  A drive at a PCI address that vfio-pci holds.
struct nvme_spec {
  enum class kinds { memory, software, vfio };
  kinds kind = kinds::memory;
  std::uint64_t bytes = 0;  ///< of memory
  std::string name;         ///< path or address
};

/// Throws usage_error that says what is allowed.
[[nodiscard]] nvme_spec parse_nvme_spec(std::string_view text);

/// Opens the controller. Memory is filled with words that depend on their places. Throws what the
/// links throw, and usage_error for a path that cannot be a member.
[[nodiscard]] std::unique_ptr<nvme_host::controller_link> open_controller(
    nvme_spec const& spec, unsigned threads, nvme_host::memory_source const& memory);

/// The software controller, vfio: which works here, and why not.
[[nodiscard]] std::vector<ability> look_at_nvme();

}  // namespace gpufs::apps
