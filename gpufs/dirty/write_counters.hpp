// Hashed write counters: they show whether bytes requested earlier may have been overwritten since.
// Their number does not depend on the size of files. The GPUfs readahead paper, section 4.1, leaves
// this case as future work.
#pragma once

#include <gpufs/base/reduce.hpp>
#include <gpufs/cache/page_table.hpp>
#include <gpufs/dirty/sizes.hpp>
#include <gpufs/fs_ref.hpp>

#include <cstdint>

namespace gpufs::dirty {

using namespace base;

/// Each counter serves the regions of 1 MiB that hash to it. A collision only costs a repeated
/// read.
inline constexpr unsigned write_region_shift = 20;

__device__ __forceinline__ std::uint32_t& write_counter(fs_ref const& fs, std::uint64_t version,
                                                        std::uint64_t region) {
  return fs.writes.write_counters[mix64(region + mix64(version)) % write_counter_count];
}

/// Counts that a page becomes dirty, or is clean again. One thread calls, before the page's frame
/// may be replaced. A thread that then finds the page absent sees the new count.
__device__ __forceinline__ void count_write(fs_ref const& fs, std::uint64_t version,
                                            std::uint64_t offset) {
  reduce_add(write_counter(fs, version, offset >> write_region_shift), 1, memory_order_relaxed);
}

/// Sums the counters of the regions of [begin, end). One thread calls. Compare with the sum at the
/// time when a copy of these bytes was requested. If both are equal, the copy has all writes to
/// pages that are not in the cache now.
__device__ __forceinline__ std::uint32_t writes_counted(fs_ref const& fs, std::uint64_t version,
                                                        std::uint64_t begin, std::uint64_t end) {
  if (fs.writes.write_counters == nullptr) return 0;
  std::uint32_t sum = 0;
  GPUFS_ROLLED
  for (std::uint64_t r = begin >> write_region_shift; r <= (end - 1) >> write_region_shift; ++r) {
    sum += atomic_ref<std::uint32_t, scope::device>(write_counter(fs, version, r))
               .load(memory_order_relaxed);
  }
  return sum;
}

}  // namespace gpufs::dirty
