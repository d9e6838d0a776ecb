// The memory that the PRP entries of a command name.
#pragma once

#include <gpufs/nvme/format.hpp>

#include <nvme-controller/address_map.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace gpufs::nvme_controller {

/// A part of a transfer, within one memory page.
struct segment {
  std::byte* memory;
  std::uint64_t bytes;
};

/// Appends the parts of a transfer of `bytes` > 0 bytes to `out`. Returns success,
/// invalid_prp_offset for an entry that is not aligned as it must be, or data_transfer_error for a
/// page or a list that is not mapped.
[[nodiscard]] std::uint16_t walk_prps(range_table const& table, nvme::prp_pair entries,
                                      std::uint64_t bytes, std::vector<segment>& out);

}  // namespace gpufs::nvme_controller
