// Runs of pages of the host's memory.
#pragma once

#include <gpufs/device/shared_range.hpp>
#include <gpufs/mapping/block_runs.hpp>

#include <cstdint>

#include <sys/mman.h>

namespace gpufs::shared {

/// The pages that have bytes [at, at + bytes).
inline block_run pages_of(std::uint64_t at, std::uint64_t bytes) {
  using device_memory::host_page;
  return {at / host_page, (at + bytes + host_page - 1) / host_page};
}

inline std::uint64_t bytes_of(block_run pages) {
  return (pages.end - pages.first) * device_memory::host_page;
}

/// The aligned group of `count` pages that has `page`.
inline block_run around(std::uint64_t page, std::uint64_t count) {
  std::uint64_t const first = page / count * count;
  return {first, first + count};
}

/// A touch makes entries for so many neighbours, and so many of these get memory: an entry costs
/// much less than a touch, and memory may never be used.
inline constexpr std::uint64_t pages_with_entries = (2 << 20) / device_memory::host_page;
inline constexpr std::uint64_t pages_with_memory = (256 << 10) / device_memory::host_page;

/// Returns false if the system has no more mappings.
inline bool set_protection(void* first, std::uint64_t bytes, device_memory::host_access to) {
  return ::mprotect(first, bytes, device_memory::protection_for(to)) == 0;
}

}  // namespace gpufs::shared
