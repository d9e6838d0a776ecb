// What identify tells about the controller and its namespaces.
#pragma once

#include <gpufs/nvme/format.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace gpufs::nvme_controller {

using identity_page = std::array<std::byte, nvme::identify::bytes>;

/// `subsystem` is an NVMe qualified name of at most 223 bytes.
[[nodiscard]] identity_page controller_identity(std::string_view subsystem);
[[nodiscard]] identity_page namespace_identity(std::uint64_t blocks, std::uint32_t lba_bytes);

/// A name that no other controller has, with a random UUID.
[[nodiscard]] std::string new_subsystem_name();

/// Async event requests that are kept.
inline constexpr unsigned most_events = 4;

/// Version 1.4, as register VS has it.
inline constexpr std::uint32_t version = 1u << 16 | 4u << 8;

}  // namespace gpufs::nvme_controller
