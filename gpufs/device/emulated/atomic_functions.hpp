// CUDA's atomic functions on the emulated device; relaxed, as in CUDA. New code uses
// gpufs::atomic_ref, which names order and scope.
#pragma once

#include <gpufs/device/emulated/threads.hpp>

#include <atomic>
#include <type_traits>

namespace gpufs::emulated {

template <class T>
concept atomic_word =
    std::is_same_v<T, int> || std::is_same_v<T, unsigned> || std::is_same_v<T, unsigned long long>;
template <class T>
concept atomic_addend = atomic_word<T> || std::is_same_v<T, float> || std::is_same_v<T, double>;

template <class T, class Next>
T atomic_replace(T* address, Next next) {
  preemption_point();
  std::atomic_ref<T> const word(*address);
  T old = word.load(std::memory_order_relaxed);
  while (!word.compare_exchange_weak(old, next(old), std::memory_order_relaxed)) {
  }
  return old;
}

}  // namespace gpufs::emulated

template <gpufs::emulated::atomic_addend T>
T atomicAdd(T* address, std::type_identity_t<T> value) {
  gpufs::emulated::preemption_point();
  return std::atomic_ref<T>(*address).fetch_add(value, std::memory_order_relaxed);
}
template <gpufs::emulated::atomic_word T>
T atomicSub(T* address, std::type_identity_t<T> value) {
  gpufs::emulated::preemption_point();
  return std::atomic_ref<T>(*address).fetch_sub(value, std::memory_order_relaxed);
}
template <gpufs::emulated::atomic_word T>
T atomicAnd(T* address, std::type_identity_t<T> value) {
  gpufs::emulated::preemption_point();
  return std::atomic_ref<T>(*address).fetch_and(value, std::memory_order_relaxed);
}
template <gpufs::emulated::atomic_word T>
T atomicOr(T* address, std::type_identity_t<T> value) {
  gpufs::emulated::preemption_point();
  return std::atomic_ref<T>(*address).fetch_or(value, std::memory_order_relaxed);
}
template <gpufs::emulated::atomic_word T>
T atomicXor(T* address, std::type_identity_t<T> value) {
  gpufs::emulated::preemption_point();
  return std::atomic_ref<T>(*address).fetch_xor(value, std::memory_order_relaxed);
}
template <gpufs::emulated::atomic_word T>
T atomicExch(T* address, std::type_identity_t<T> value) {
  gpufs::emulated::preemption_point();
  return std::atomic_ref<T>(*address).exchange(value, std::memory_order_relaxed);
}
template <gpufs::emulated::atomic_word T>
T atomicCAS(T* address, std::type_identity_t<T> compare, std::type_identity_t<T> value) {
  gpufs::emulated::preemption_point();
  std::atomic_ref<T>(*address).compare_exchange_strong(compare, value, std::memory_order_relaxed);
  return compare;
}
template <gpufs::emulated::atomic_word T>
T atomicMin(T* address, std::type_identity_t<T> value) {
  return gpufs::emulated::atomic_replace(address,
                                         [value](T old) { return value < old ? value : old; });
}
template <gpufs::emulated::atomic_word T>
T atomicMax(T* address, std::type_identity_t<T> value) {
  return gpufs::emulated::atomic_replace(address,
                                         [value](T old) { return old < value ? value : old; });
}
