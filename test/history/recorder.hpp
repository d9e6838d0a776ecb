// What the callers of a running program share: one clock, and what each call has come to.
#pragma once

#include <gpufs/device.hpp>

#include <test/history/program.hpp>

#include <cstdint>

namespace gpufs::history {

/// In pinned memory, so that kernels and host threads share it.
struct record {
  std::uint64_t begin, end;
  std::int64_t result;
  std::uint32_t finished;  ///< stored last
  std::uint32_t reserved;
};

/// The part that kernels take by value.
struct recorder_ref {
  /// Grows all the time, or at each look: a look that gives more than another one came later.
  std::uint64_t* clock;
  /// Device memory. Orders the callers of one device among each other.
  std::uint64_t* device_order;
  record* records;
  std::int32_t* handles;  ///< descriptors by handle
};

inline std::uint64_t host_stamp(recorder_ref const& r) {
  return atomic_ref<std::uint64_t, scope::system>(*r.clock).fetch_add(1, memory_order_acq_rel);
}

#if defined(GPUFS_EMULATED) || defined(__CUDACC__)

/// One thread calls. A GPU cannot change the host's word and be sure of it, so it only looks: a
/// thread of the host makes the clock grow meanwhile.
__device__ inline std::uint64_t device_stamp(recorder_ref const& r) {
#if defined(GPUFS_EMULATED)
  return atomic_ref<std::uint64_t, scope::system>(*r.clock).fetch_add(1, memory_order_acq_rel);
#else
  atomic_ref<std::uint64_t, scope::device>(*r.device_order).fetch_add(1, memory_order_acq_rel);
  __threadfence_system();
  auto const now = atomic_ref<std::uint64_t, scope::system>(*r.clock).load(memory_order_acquire);
  __threadfence_system();
  return now;
#endif
}

#endif

}  // namespace gpufs::history
