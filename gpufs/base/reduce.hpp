// Atomic adds to words of GPU memory that need not look at what kind of memory it is.
#pragma once

#include <gpufs/device.hpp>

#include <cstdint>
#include <type_traits>

namespace gpufs::base {

// An atomic_ref may refer to shared memory, where a 64-bit add is a loop. So its add comes back
// with the answer whether that loop is needed, and the thread waits for it: a trip to the L2. The
// functions here say that the word lies in GPU memory. An add without a result then is a store:
// nobody waits.

/// Adds to a word in GPU memory, at device scope. Any thread calls. `order` is relaxed or release.
template <class T>
__device__ __forceinline__ void reduce_add(T& word, std::type_identity_t<T> value,
                                           memory_order order) {
  static_assert(std::is_unsigned_v<T> && (sizeof(T) == 4 || sizeof(T) == 8));
#if defined(__CUDACC__)
  auto const at = __cvta_generic_to_global(&word);
  if constexpr (sizeof(T) == 8) {
    if (order == memory_order_relaxed)
      asm volatile("red.relaxed.gpu.global.add.u64 [%0], %1;" ::"l"(at), "l"(value) : "memory");
    else
      asm volatile("red.release.gpu.global.add.u64 [%0], %1;" ::"l"(at), "l"(value) : "memory");
  } else {
    if (order == memory_order_relaxed)
      asm volatile("red.relaxed.gpu.global.add.u32 [%0], %1;" ::"l"(at), "r"(value) : "memory");
    else
      asm volatile("red.release.gpu.global.add.u32 [%0], %1;" ::"l"(at), "r"(value) : "memory");
  }
#else
  atomic_ref<T, scope::device>(word).fetch_add(value, order);
#endif
}

/// The same with acquire order. Returns the value before.
__device__ __forceinline__ std::uint64_t fetch_add_acquire(std::uint64_t& word,
                                                           std::uint64_t value) {
#if defined(__CUDACC__)
  std::uint64_t before;
  asm volatile("atom.acquire.gpu.global.add.u64 %0, [%1], %2;"
               : "=l"(before)
               : "l"(__cvta_generic_to_global(&word)), "l"(value)
               : "memory");
  return before;
#else
  return atomic_ref<std::uint64_t, scope::device>(word).fetch_add(value, memory_order_acquire);
#endif
}

/// Adds to a word in GPU memory, at device scope, without any order on a GPU. The caller's later
/// loads must bypass the multiprocessor's cache, and must stand behind a branch on the value. An
/// acquire would empty that cache. On other devices this is an acquire. Returns the value before.
__device__ __forceinline__ std::uint64_t fetch_add_dependent(std::uint64_t& word,
                                                             std::uint64_t value) {
#if defined(__CUDACC__)
  std::uint64_t before;
  asm volatile("atom.relaxed.gpu.global.add.u64 %0, [%1], %2;"
               : "=l"(before)
               : "l"(__cvta_generic_to_global(&word)), "l"(value)
               : "memory");
  return before;
#else
  return fetch_add_acquire(word, value);
#endif
}

}  // namespace gpufs::base
