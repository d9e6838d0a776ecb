// The checksum of checksum.hpp, computed by the threads of a block together. For device code.
#pragma once

#include <gpufs/device.hpp>

#include <apps/common/checksum.hpp>

#include <cstddef>
#include <cstdint>

namespace gpufs::apps {

/// The checksum of `count` bytes at `bytes` (8-byte aligned, readable up to the next multiple of 8). All threads of the block call;
/// all get it. Starts and ends with a barrier.
__device__ inline std::uint64_t block_checksum(std::byte const* bytes, std::uint64_t count) {
  __shared__ std::uint64_t total;
  __syncthreads();
  if (threadIdx.x == 0) total = 0;
  __syncthreads();
  auto const* words = reinterpret_cast<std::uint64_t const*>(bytes);
  std::uint64_t sum = 0;
  for (std::uint64_t k = threadIdx.x; 8 * k < count; k += blockDim.x) {
    std::uint64_t const left = count - 8 * k;
    std::uint64_t const word = left < 8 ? words[k] & (~0ull >> (64 - 8 * left)) : words[k];
    sum += checksum_term(word, k);
  }
  atomic_ref<std::uint64_t, scope::block>(total).fetch_add(sum, memory_order_relaxed);
  __syncthreads();
  return total;
}

}  // namespace gpufs::apps
