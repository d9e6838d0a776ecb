// The checksum of checksum.hpp, computed by the threads of a block or of a warp together. For
// device code.
#pragma once

#include <gpufs/base/warp.hpp>
#include <gpufs/device.hpp>

#include <apps/common/checksum.hpp>

#include <cstddef>
#include <cstdint>

namespace gpufs::apps {

namespace detail {

/// What every `step`-th word from number `first` on adds to the checksum.
__device__ inline std::uint64_t part_of_checksum(std::byte const* bytes, std::uint64_t count,
                                                 unsigned first, unsigned step) {
  auto const* words = reinterpret_cast<std::uint64_t const*>(bytes);
  std::uint64_t sum = 0;
  for (std::uint64_t k = first; 8 * k < count; k += step) {
    std::uint64_t const left = count - 8 * k;
    std::uint64_t const word = left < 8 ? words[k] & (~0ull >> (64 - 8 * left)) : words[k];
    sum += checksum_term(word, k);
  }
  return sum;
}

}  // namespace detail

/// The checksum of `count` bytes at `bytes` (8-byte aligned, readable up to the next multiple of
/// 8). All threads of the block call; all get it. Starts and ends with a barrier.
__device__ inline std::uint64_t block_checksum(std::byte const* bytes, std::uint64_t count) {
  __shared__ std::uint64_t total;
  __syncthreads();
  if (threadIdx.x == 0) total = 0;
  __syncthreads();
  std::uint64_t const sum = detail::part_of_checksum(bytes, count, threadIdx.x, blockDim.x);
  atomic_ref<std::uint64_t, scope::block>(total).fetch_add(sum, memory_order_relaxed);
  __syncthreads();
  return total;
}

/// The same by the lanes of a warp, all of which call and get it.
__device__ inline std::uint64_t warp_checksum(std::byte const* bytes, std::uint64_t count) {
  std::uint64_t sum = detail::part_of_checksum(bytes, count, lane_id(), base::warp_size);
  for (int step = 1; step < static_cast<int>(base::warp_size); step *= 2) {
    sum += __shfl_xor_sync(base::all_lanes, static_cast<unsigned long long>(sum), step);
  }
  return sum;
}

}  // namespace gpufs::apps
