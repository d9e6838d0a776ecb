// Which pages of this process have an entry in the CPU's page table.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace gpufs::device_memory {

/// Units of shared_range::granularity, counted from `begin` on, that have a page of
/// [first, end) bytes behind it which has an entry, or has none, as `has_entry` says. Throws
/// device_error: the system does not say.
[[nodiscard]] std::vector<std::uint64_t> units_with_pages(std::byte const* begin,
                                                          std::uint64_t first, std::uint64_t end,
                                                          bool has_entry);

}  // namespace gpufs::device_memory
