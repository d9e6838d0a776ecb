// gfstats: a descriptor's counters, summed by the group's first warp.
#pragma once

#include <gpufs/handle/file_counters.hpp>
#include <gpufs/io/open.hpp>

#include <cerrno>
#include <cstdint>

namespace gpufs {

namespace io {

using namespace base;

/// Sums the stripes of a descriptor's counters. All lanes of a warp call, and get the sums.
GPUFS_LIBRARY_STAGE void sum_file_counts(fs_ref const* __restrict__ handle, std::int32_t fd,
                                         std::uint64_t* sums) {
  static_assert(handle::file_counter_stripes == warp_size);
  handle::file_count_row& row =
      handle->file_counters.rows[std::uint64_t(rpc::descriptor_index(fd)) * warp_size + lane_id()];
  // Pairs with take_file_row(): values of this descriptor are there, or zeros.
  bool const ours = atomic_ref<std::uint64_t, scope::device>(row.tag).load(memory_order_acquire) ==
                    rpc::descriptor_generation(fd);
  for (unsigned i = 0; i < handle::file_counter_count; ++i) {
    std::uint64_t sum =
        ours ? atomic_ref<std::uint64_t, scope::device>(row.value[i]).load(memory_order_relaxed)
             : 0;
    for (int step = warp_size / 2; step > 0; step /= 2)
      sum += __shfl_xor_sync(all_lanes, static_cast<unsigned long long>(sum), step);
    sums[i] = sum;
  }
}

}  // namespace io

template <class Group>
__device__ int gfstats(io_context<Group>& io, int fd, file_statistics* counts) {
  using ops = typename io_context<Group>::ops;
  if (ops::warps(io.group()) == 0) return -EINVAL;
  if (std::int32_t const error = io::use_file(io, fd); error != 0) return error;
  if (io.fs().file_counters.rows == nullptr) return -EOPNOTSUPP;
  std::uint64_t sums[handle::file_counter_count] = {};
  if (ops::warp(io.group()) == 0) io::sum_file_counts(io.handle(), fd, sums);
  for (auto& sum : sums) sum = ops::broadcast(io.group(), sum);
#define GPUFS_STORE(name, help) \
  counts->name = sums[static_cast<unsigned>(handle::file_counter::name)];
  GPUFS_FILE_COUNTERS(GPUFS_STORE)
#undef GPUFS_STORE
  return 0;
}

}  // namespace gpufs
