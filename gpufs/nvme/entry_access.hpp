// How device code accesses the memory of queues, on both devices.
#pragma once

#include <gpufs/base/settled.hpp>
#include <gpufs/device.hpp>
#include <gpufs/nvme/format.hpp>

#include <cstdint>

namespace gpufs::nvme {

// Problem: a mover rings the doorbell for entries that other threads stored. On the GPU a release
//   waits for all pulls of the multiprocessor, 80 to 350 us.
// Trick: the thread that stored an entry loads it back, and then marks it with a relaxed store. The
//   mover rings once it has seen the mark. Stores to host memory are posted in order, and a load
//   pushes them.
// Basis: the hardware does so. The PTX memory model does not promise it.
// Other devices use the formal order: the mark is a release, its load an acquire, and the doorbell
// a release.

/// Order of a ticket's draw. On other devices it passes on that the slot's last reader is done. On
/// the GPU its load has returned before the answer came that freed a channel.
#if defined(__CUDACC__)
inline constexpr memory_order draw_order = memory_order_relaxed;
inline constexpr memory_order mark_load_order = memory_order_relaxed;
#else
inline constexpr memory_order draw_order = memory_order_acq_rel;
inline constexpr memory_order mark_load_order = memory_order_acquire;
#endif

/// Stores an entry, and returns once a mark may announce it.
__device__ __forceinline__ void store_entry(sqe& to, sqe const& entry) {
#if defined(__CUDACC__)
  auto* const quads = reinterpret_cast<uint4*>(&to);
  for (unsigned i = 0; i < 4; ++i)
    quads[i] =
        make_uint4(entry.dw[4 * i], entry.dw[4 * i + 1], entry.dw[4 * i + 2], entry.dw[4 * i + 3]);
  base::settle(to.dw[3], to.dw[7], to.dw[11], to.dw[15]);
#else
  to = entry;
#endif
}

/// Loads an entry in one piece, or so that it is whole if its phase is the new one.
__device__ __forceinline__ cqe load_entry(cqe& from) {
  cqe entry;
#if defined(__CUDACC__)
  asm volatile("ld.volatile.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(entry.dw[0]), "=r"(entry.dw[1]), "=r"(entry.dw[2]), "=r"(entry.dw[3])
               : "l"(&from)
               : "memory");
#else
  // Pairs with the controller's release: it stores word 3 last.
  for (int i = 3; i >= 0; --i)
    entry.dw[i] = atomic_ref<std::uint32_t, scope::system>(from.dw[i])
                      .load(i == 3 ? memory_order_acquire : memory_order_relaxed);
#endif
  return entry;
}

/// Stores the value of a doorbell, in one access of 32 bits. On the GPU it returns once the store
/// has arrived: the next holder of the queue's lock may be on another multiprocessor, and its value
/// must not arrive first. A controller that saw the older value last would take entries again.
__device__ __forceinline__ void ring(std::uint32_t* doorbell, std::uint32_t value) {
#if defined(__CUDACC__)
  std::uint32_t back;
  asm volatile("st.mmio.relaxed.sys.u32 [%0], %1;" ::"l"(doorbell), "r"(value) : "memory");
  asm volatile("ld.mmio.relaxed.sys.u32 %0, [%1];" : "=r"(back) : "l"(doorbell) : "memory");
  base::await_loads(back);
#else
  // Pairs with the controller's acquire.
  atomic_ref<std::uint32_t, scope::system>(*doorbell).store(value, memory_order_release);
#endif
}

}  // namespace gpufs::nvme
