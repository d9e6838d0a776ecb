// The reading kernels of `gpufs bench`, as templates over the way of reading.
#pragma once

#include <gpufs/gpufs.hpp>

#include <apps/bench/access.hpp>
#include <apps/bench/plan_buffers.hpp>
#include <apps/common/block_checksum.hpp>

#include <cstddef>
#include <cstdint>

namespace gpufs::apps {

/// What a shape's requests are read by: run() and checksums() of file_reader.
struct reading_kernels {
  void (*read)(fs_ref, int, access_plan, std::uint64_t, std::byte*, std::uint64_t,
               failure_record*) = nullptr;
  void (*check)(fs_ref, int, access_plan, std::byte*, std::uint64_t, std::uint64_t*,
                failure_record*) = nullptr;
  unsigned depth = 1;  ///< requests that a reader has under way, each with a buffer
};

/// Those of gmmap, array and async: up to most_threads_by_warp threads.
[[nodiscard]] reading_kernels kernels_of_other_ways(bench_shape const& shape);

#if defined(__CUDACC__) || defined(GPUFS_EMULATED)

/// The group that has a context of its own.
template <bool ByWarp>
__device__ __forceinline__ auto reading_group() {
  auto const block = cooperative_groups::this_thread_block();
  if constexpr (ByWarp) {
    return cooperative_groups::tiled_partition<32>(block);
  } else {
    return block;
  }
}

template <bool ByWarp>
__device__ __forceinline__ std::uint64_t reader_number() {
  if constexpr (ByWarp) {
    return std::uint64_t{blockIdx.x} * (blockDim.x / base::warp_size) +
           threadIdx.x / base::warp_size;
  } else {
    return blockIdx.x;
  }
}

// The bounds let every shape keep 128 registers a thread (64 beyond 512 threads). Two blocks of 256
// threads share a multiprocessor.
template <class Way, bool ByWarp, unsigned MostThreads, unsigned BlocksTogether>
__global__ void __launch_bounds__(MostThreads, BlocksTogether)
    read_file(fs_ref fs, int fd, access_plan plan, std::uint64_t repeat, std::byte* buffers,
              std::uint64_t buffer_bytes, failure_record* failure) {
  auto const group = reading_group<ByWarp>();
  io_context io(fs, group);
  std::uint64_t const reader = reader_number<ByWarp>();
  std::byte* const mine = buffers + reader * Way::depth * buffer_bytes;
  std::uint64_t const requests = plan.requests_of(reader);
  for (std::uint64_t pass = 0; pass < repeat; ++pass) {
    for (std::uint64_t i = 0; i < requests; i += Way::depth) {
      Way under_way[Way::depth];
      for (unsigned k = 0; k < Way::depth && i + k < requests; ++k) {
        under_way[k].begin(io, fd, mine + k * buffer_bytes, plan.at(reader, i + k));
      }
      bool failed = false;
      for (unsigned k = 0; k < Way::depth && i + k < requests; ++k) {
        ssize_t const got = under_way[k].end(io, fd);
        if (got == static_cast<ssize_t>(under_way[k].a.bytes)) continue;
        record_failure(failure, under_way[k].a, got);
        failed = true;
      }
      if (failed) return;
    }
  }
}

template <class Way, bool ByWarp>
__global__ void __launch_bounds__(1024)
    read_and_check(fs_ref fs, int fd, access_plan plan, std::byte* buffers,
                   std::uint64_t buffer_bytes, std::uint64_t* checksums, failure_record* failure) {
  auto const group = reading_group<ByWarp>();
  io_context io(fs, group);
  std::uint64_t const reader = reader_number<ByWarp>();
  std::byte* const mine = buffers + reader * Way::depth * buffer_bytes;
  std::uint64_t const requests = plan.requests_of(reader);
  for (std::uint64_t i = 0; i < requests; ++i) {
    access const a = plan.at(reader, i);
    Way way;
    way.begin(io, fd, mine, a);
    ssize_t const got = way.end(io, fd);
    if (got != static_cast<ssize_t>(a.bytes)) return record_failure(failure, a, got);
    std::uint64_t sum;
    if constexpr (ByWarp) {
      sum = warp_checksum(mine, a.bytes);
    } else {
      sum = block_checksum(mine, a.bytes);
    }
    if (group.thread_rank() == 0) checksums[a.number] = sum;
  }
}

#endif

}  // namespace gpufs::apps
