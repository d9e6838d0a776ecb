// What identify tells about the controller and its namespaces.
#pragma once

#include <gpufs/nvme/format.hpp>

#include <array>
#include <cstddef>
#include <cstdint>

namespace gpufs::nvme_controller {

using identity_page = std::array<std::byte, nvme::identify::bytes>;

[[nodiscard]] identity_page controller_identity();
[[nodiscard]] identity_page namespace_identity(std::uint64_t blocks, std::uint32_t lba_bytes);

/// Version 1.4, as register VS has it.
inline constexpr std::uint32_t version = 1u << 16 | 4u << 8;

}  // namespace gpufs::nvme_controller
