// Counters of each descriptor: rows in GPU memory, kept by stripes as those of the filesystem.
#pragma once

#include <gpufs/base/reduce.hpp>
#include <gpufs/base/warp.hpp>
#include <gpufs/device.hpp>
#include <gpufs/fs_ref.hpp>
#include <gpufs/handle/counters.hpp>
#include <gpufs/handle/file_count_row.hpp>
#include <gpufs/handle/file_counters_ref.hpp>

#include <cstdint>

namespace gpufs::handle {

/// The filesystem's counter with the name of a file's.
__device__ constexpr counter filesystem_counter(file_counter which) {
#define GPUFS_CASE(name, help) \
  if (which == file_counter::name) return counter::name;
  GPUFS_FILE_COUNTERS(GPUFS_CASE)
#undef GPUFS_CASE
  return counter::count;
}

// A place in the table of descriptors has many descriptors, one after the other, and no call of the
// host tells device code of a new one in time. So a row says whose values it has. The first caller
// of a stripe that finds an earlier descriptor there sets the values to 0. It does so only while
// its own descriptor is open. So a call through a descriptor that is closed takes no row from the
// next one. At most it adds once to a row that was its own when it looked.

/// Makes a row that of the open descriptor with this place and generation. Any thread calls.
/// Returns false if that descriptor is closed. The holder of a changing row makes a few stores, so
/// the wait for it is bounded.
__device__ __forceinline__ bool take_file_row(fs_ref const& fs, file_count_row& row,
                                              std::uint32_t place, std::uint64_t generation) {
  atomic_ref<std::uint64_t, scope::system> const open(fs.link.shared.open_files[place].tag);
  if (open.load(memory_order_acquire) != generation) return false;
  atomic_ref<std::uint64_t, scope::device> tag(row.tag);
  std::uint64_t seen = tag.load(memory_order_acquire);
  for (unsigned pause = 0; seen != generation;) {
    if (seen == file_row_changing) {
      backoff(pause);
      seen = tag.load(memory_order_acquire);
    } else if (tag.compare_exchange_strong(seen, file_row_changing, memory_order_acquire)) {
      for (auto& v : row.value)
        atomic_ref<std::uint64_t, scope::device>(v).store(0, memory_order_relaxed);
      // Pairs with the acquires of callers: they add behind the zeros.
      tag.store(generation, memory_order_release);
      return true;
    }
  }
  return true;
}

/// Adds to a counter of a descriptor. Call from one thread of a warp.
GPUFS_LIBRARY_STAGE void count_of_file(fs_ref const* __restrict__ handle, std::int32_t fd,
                                       file_counter which, std::uint64_t n) {
  fs_ref const& fs = *handle;
  std::uint32_t const place = rpc::descriptor_index(fd);
  std::uint64_t const generation = rpc::descriptor_generation(fd);
  if (fd < 0 || place >= fs.link.shared.max_open_files) return;
  unsigned const stripe = (blockIdx.x * 7 + threadIdx.x / 32) % file_counter_stripes;
  file_count_row& row = fs.file_counters.rows[std::uint64_t(place) * file_counter_stripes + stripe];
  if (atomic_ref<std::uint64_t, scope::device>(row.tag).load(memory_order_acquire) != generation &&
      !take_file_row(fs, row, place, generation))
    return;
  base::reduce_add(row.value[static_cast<unsigned>(which)], n, memory_order_relaxed);
}

/// Adds to a counter of the filesystem and, if descriptors count, to that of `fd`. Call from one
/// thread of a warp. Where such counters are not asked for, it costs a branch.
__device__ __forceinline__ void count(fs_ref const& fs, std::int32_t fd, file_counter which,
                                      std::uint64_t n = 1) {
  if (n == 0) return;
  add(fs, filesystem_counter(which), n);
  if (fs.file_counters.rows != nullptr) count_of_file(fs.self, fd, which, n);
}

}  // namespace gpufs::handle
