// gpufs::atomic_ref: the atomics of device code on both devices. Host code can use it, too.
#pragma once

#if defined(__CUDACC__)
#include <cuda/atomic>
#else
#include <atomic>
#endif

#include <cstdint>

#if defined(GPUFS_EMULATED)
#include <gpufs/device/emulated/threads.hpp>
#endif

namespace gpufs {

/// The threads that take part in an atomic: of a block, of the device, or of device and host.
enum class scope { block, device, system };

#if defined(__CUDACC__)

using cuda::std::memory_order;
using cuda::std::memory_order_acq_rel;
using cuda::std::memory_order_acquire;
using cuda::std::memory_order_relaxed;
using cuda::std::memory_order_release;
using cuda::std::memory_order_seq_cst;

namespace detail {
template <scope Scope>
inline constexpr cuda::thread_scope native_scope =
    Scope == scope::block    ? cuda::thread_scope_block
    : Scope == scope::device ? cuda::thread_scope_device
                             : cuda::thread_scope_system;
}  // namespace detail

/// An atomic view of a plain, naturally aligned object of 4 or 8 bytes. It has the members of
/// std::atomic_ref, and fetch_min and fetch_max. Memory orders are always written out. Callable on
/// device and host.
template <class T, scope Scope = scope::device>
class atomic_ref : public cuda::atomic_ref<T, detail::native_scope<Scope>> {
 public:
  using cuda::atomic_ref<T, detail::native_scope<Scope>>::atomic_ref;
};

/// Stores a byte that the host may load: relaxed, of system scope. An atomic_ref of a byte would
/// load and replace the word around it.
__device__ inline void store_byte(std::uint8_t& object, std::uint8_t value) {
  static_cast<std::uint8_t volatile&>(object) = value;
}

#else

using std::memory_order;
using std::memory_order_acq_rel;
using std::memory_order_acquire;
using std::memory_order_relaxed;
using std::memory_order_release;
using std::memory_order_seq_cst;

/// An atomic view of a plain, naturally aligned object of 4 or 8 bytes. It has the members of
/// std::atomic_ref, and fetch_min and fetch_max. Memory orders are always written out. On the
/// emulated device another thread of the block may run before any operation
/// (emulated::settings::preempt). Scopes make no difference there.
template <class T, scope Scope = scope::device>
class atomic_ref {
 public:
  explicit atomic_ref(T& object) : atomic_(object) {}

  [[nodiscard]] T load(memory_order order) const {
    preemption_point();
    return atomic_.load(order);
  }
  void store(T value, memory_order order) const {
    preemption_point();
    atomic_.store(value, order);
  }
  T exchange(T value, memory_order order) const {
    preemption_point();
    return atomic_.exchange(value, order);
  }
  bool compare_exchange_strong(T& expected, T desired, memory_order success,
                               memory_order failure) const {
    preemption_point();
    return atomic_.compare_exchange_strong(expected, desired, success, failure);
  }
  bool compare_exchange_strong(T& expected, T desired, memory_order order) const {
    preemption_point();
    return atomic_.compare_exchange_strong(expected, desired, order);
  }
  bool compare_exchange_weak(T& expected, T desired, memory_order success,
                             memory_order failure) const {
    preemption_point();
    return atomic_.compare_exchange_weak(expected, desired, success, failure);
  }
  bool compare_exchange_weak(T& expected, T desired, memory_order order) const {
    preemption_point();
    return atomic_.compare_exchange_weak(expected, desired, order);
  }
  T fetch_add(T value, memory_order order) const {
    preemption_point();
    return atomic_.fetch_add(value, order);
  }
  T fetch_sub(T value, memory_order order) const {
    preemption_point();
    return atomic_.fetch_sub(value, order);
  }
  T fetch_and(T value, memory_order order) const {
    preemption_point();
    return atomic_.fetch_and(value, order);
  }
  T fetch_or(T value, memory_order order) const {
    preemption_point();
    return atomic_.fetch_or(value, order);
  }
  T fetch_xor(T value, memory_order order) const {
    preemption_point();
    return atomic_.fetch_xor(value, order);
  }
  T fetch_min(T value, memory_order order) const {
    return replace(order, [value](T old) { return value < old ? value : old; });
  }
  T fetch_max(T value, memory_order order) const {
    return replace(order, [value](T old) { return old < value ? value : old; });
  }

 private:
  static void preemption_point() {
#if defined(GPUFS_EMULATED)
    emulated::preemption_point();
#endif
  }

  // Replaces the value by next(value), even if both are equal. So the memory order holds in either
  // case.
  template <class Next>
  T replace(memory_order order, Next next) const {
    preemption_point();
    T old = atomic_.load(memory_order_relaxed);
    while (!atomic_.compare_exchange_weak(old, next(old), order, memory_order_relaxed)) {
    }
    return old;
  }

  std::atomic_ref<T> atomic_;
};

/// Stores a byte that the host may load: relaxed, of system scope.
inline void store_byte(std::uint8_t& object, std::uint8_t value) {
#if defined(GPUFS_EMULATED)
  emulated::preemption_point();
#endif
  std::atomic_ref<std::uint8_t>(object).store(value, memory_order_relaxed);
}

#endif

}  // namespace gpufs
