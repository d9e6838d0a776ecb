// Hashed write counters: tell whether file bytes that were requested a while ago may have been
// overwritten since. Of fixed number, whatever the sizes of files; what paper 001, section 4.1,
// leaves as future work.
#pragma once

#include <gpufs/cache/page_table.hpp>
#include <gpufs/fs_ref.hpp>

#include <cstdint>

namespace gpufs {

/// Each of the write_counter_count counters serves the regions of 1 MiB that hash to it. Collisions
/// cost a repeated read, nothing else.
inline constexpr unsigned write_region_shift = 20;

__device__ __forceinline__ atomic_ref<std::uint32_t, scope::device> write_counter(
    fs_ref const& fs, std::uint64_t uid, std::uint64_t region) {
  return atomic_ref<std::uint32_t, scope::device>(
      fs.writes.write_counters[mix64(region + mix64(uid)) % write_counter_count]);
}

/// A page becomes dirty, or is clean again. Before it may be replaced: whoever finds the page
/// absent afterwards sees the new count.
__device__ __forceinline__ void count_write(fs_ref const& fs, std::uint64_t uid,
                                            std::uint64_t offset) {
  write_counter(fs, uid, offset >> write_region_shift).fetch_add(1, memory_order_relaxed);
}

/// Sum over the regions of [begin, end). If it is what it was when a copy of these bytes was
/// requested, the copy holds all that was written to pages which are not in the cache now. One
/// thread calls.
__device__ __forceinline__ std::uint32_t writes_counted(fs_ref const& fs, std::uint64_t uid,
                                                        std::uint64_t begin, std::uint64_t end) {
  if (fs.writes.write_counters == nullptr) return 0;
  std::uint32_t sum = 0;
  for (std::uint64_t r = begin >> write_region_shift; r <= (end - 1) >> write_region_shift; ++r) {
    sum += write_counter(fs, uid, r).load(memory_order_relaxed);
  }
  return sum;
}

}  // namespace gpufs
