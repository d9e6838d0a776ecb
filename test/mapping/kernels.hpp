// Ordinary kernels that know nothing of gpufs, for the suites of shared memory.
#pragma once

#include <gpufs/mapping.hpp>

#include <cstdint>

namespace gpufs::test {

/// The number of the calling thread, and of all threads, of a launch of one dimension.
__device__ __forceinline__ std::uint64_t thread_number() {
  return blockIdx.x * std::uint64_t(blockDim.x) + threadIdx.x;
}
__device__ __forceinline__ std::uint64_t thread_count() {
  return gridDim.x * std::uint64_t(blockDim.x);
}

[[maybe_unused]] static __global__ void add_vectors(float const* a, float const* b, float* c,
                                                    std::uint64_t n) {
  for (auto i = thread_number(); i < n; i += thread_count()) c[i] = a[i] + b[i];
}

/// to[i] = to[i] * 3 + from[i] + i + salt, modulo 2^32.
[[maybe_unused]] static __global__ void mix_words(std::uint32_t* to, std::uint32_t const* from,
                                                  std::uint64_t first, std::uint64_t count,
                                                  std::uint32_t salt) {
  for (auto i = thread_number(); i < count; i += thread_count()) {
    auto const at = first + i;
    to[at] = to[at] * 3 + from[at] + static_cast<std::uint32_t>(at) + salt;
  }
}

/// to[i] += what.
[[maybe_unused]] static __global__ void add_to_all(std::uint32_t* to, std::uint64_t count,
                                                   std::uint32_t what) {
  for (auto i = thread_number(); i < count; i += thread_count()) to[i] += what;
}

/// to[i] = what.
[[maybe_unused]] static __global__ void store_to_all(std::uint32_t* to, std::uint64_t count,
                                                     std::uint32_t what) {
  for (auto i = thread_number(); i < count; i += thread_count()) to[i] = what;
}

/// The sum of the words, by one thread per launch.
[[maybe_unused]] static __global__ void sum_words(std::uint32_t const* from, std::uint64_t count,
                                                  std::uint64_t* sum) {
  if (thread_number() != 0) return;
  std::uint64_t total = 0;
  for (std::uint64_t i = 0; i < count; ++i) total += from[i];
  *sum = total;
}

}  // namespace gpufs::test
