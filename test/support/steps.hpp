// Words in pinned memory through which a test and the blocks of its kernel tell each other how far
// they have come.
#pragma once

#include <gpufs/device.hpp>

#include <test/support/device_buffers.hpp>
#include <test/support/settings.hpp>

#include <cstdint>

namespace gpufs::test {

/// Says so for the block. All of its threads call.
__device__ inline void tell(std::uint32_t& word) {
  __syncthreads();
  if (threadIdx.x == 0)
    atomic_ref<std::uint32_t, scope::system>(word).store(1, memory_order_release);
}

/// Waits for tell(), or for tell_kernel(). All threads of the block call.
__device__ inline void await_told(std::uint32_t& word) {
  if (threadIdx.x == 0) wait_for(word, 1);
  __syncthreads();
}

/// The host's side. `what`: for the message if it does not come.
inline void tell_kernel(std::uint32_t& word) {
  atomic_ref<std::uint32_t, scope::system>(word).store(1, memory_order_release);
}
inline void await_kernel(std::uint32_t& word, char const* what) {
  wait_until(
      [&] {
        return atomic_ref<std::uint32_t, scope::system>(word).load(memory_order_acquire) != 0;
      },
      what);
}

}  // namespace gpufs::test
