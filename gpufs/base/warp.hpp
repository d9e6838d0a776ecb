// Warp helpers that all device code shares.
#pragma once

#include <gpufs/base/lanes.hpp>
#include <gpufs/device.hpp>

#include <cstdint>

// GPUFS_UNROLL unrolls the next loop, so that its array stays in registers. GPUFS_ROLLED keeps it
// rolled, so that code stays short. A call fetches its code, and a multiprocessor caches about 100
// KB. For g++ both are empty.
#if defined(__CUDACC__)
#define GPUFS_UNROLL _Pragma("unroll")
#define GPUFS_ROLLED _Pragma("unroll 1")
#else
#define GPUFS_UNROLL
#define GPUFS_ROLLED
#endif

// Marks a stage of a call. Stages are out of line, so the calling kernel keeps its own registers.
// They take the handle from GPU memory (fs_ref::self), or a block's copy of it in shared memory.
// The kernel's parameter then needs no copy on the stack. Nobody writes to the handle during a
// call. Its parameter is `__restrict__`, so that the compiler need not load members again behind
// each atomic access.
//
// GPUFS_LIBRARY_STAGE marks stages that are not templates. Each source of kernels would compile all
// of them again, and that takes most of its time. So for the emulated device the library has their
// code, out of one source (gpufs/owner/emulated/stages.cu), and other sources only call it. Only
// that one defines GPUFS_DEFINE_STAGES. `gnu_inline` says that the code is elsewhere. g++ ignores
// it beside `noinline`, hence `optimize`.
#if defined(__CUDACC__)
#define GPUFS_STAGE __device__ __noinline__
#define GPUFS_LIBRARY_STAGE GPUFS_STAGE inline
#else
#define GPUFS_STAGE __attribute__((noinline))
#if defined(GPUFS_DEFINE_STAGES)
#define GPUFS_LIBRARY_STAGE __attribute__((noinline, used)) inline
#elif defined(__clang__)
#define GPUFS_LIBRARY_STAGE extern __attribute__((noinline, gnu_inline)) inline
#else
#define GPUFS_LIBRARY_STAGE extern __attribute__((gnu_inline, optimize("no-inline"))) inline
#endif
#endif

namespace gpufs::base {

/// Calls `F` through a pointer that the compiler cannot see through. Any thread calls. The call
/// follows the calling convention: the callee saves the registers that it uses. In a direct call
/// the compiler gives a long callee most registers. The loop around a rare call then spills its own
/// registers in each turn.
///
/// The callee must not make a far_call() itself. ptxas would take it for a recursion, so the
/// kernel's stack size would be unknown. The driver then gives each thread 1 KiB, whatever the
/// kernel needs. The emulated device refuses such a call.
///
/// Code for a debugger (`nvcc -G`) is not optimised. There, atomics of libcu++ call through
/// pointers, too, so ptxas would take each of them in a callee for that recursion. The call is a
/// direct one there.
template <auto F, class... Argument>
__device__ __forceinline__ auto far_call(Argument... argument) {
#if defined(__CUDACC_DEBUG__)
  return F(argument...);
#elif defined(__CUDACC__)
  auto f = F;
  asm volatile("" : "+l"(f));
  return f(argument...);
#else
  emulated::far_call_scope const far;
  return F(argument...);
#endif
}

inline constexpr unsigned warp_size = 32;
inline constexpr unsigned all_lanes = 0xffffffffu;

/// Returns lane `from`'s value. All lanes of a warp call.
__device__ __forceinline__ std::uint32_t warp_broadcast(std::uint32_t value, int from = 0) {
  return __shfl_sync(all_lanes, value, from);
}
__device__ __forceinline__ std::int32_t warp_broadcast(std::int32_t value, int from = 0) {
  return __shfl_sync(all_lanes, value, from);
}
__device__ __forceinline__ std::uint64_t warp_broadcast(std::uint64_t value, int from = 0) {
  auto const low = __shfl_sync(all_lanes, static_cast<std::uint32_t>(value), from);
  auto const high = __shfl_sync(all_lanes, static_cast<std::uint32_t>(value >> 32), from);
  return std::uint64_t(high) << 32 | low;
}

/// Returns the bits that at least one lane has set. All lanes of a warp call.
__device__ __forceinline__ std::uint32_t warp_union(std::uint32_t bits) {
  GPUFS_UNROLL
  for (int step = static_cast<int>(warp_size) / 2; step > 0; step /= 2)
    bits |= __shfl_xor_sync(all_lanes, bits, step);
  return bits;
}

/// The sum and the minimum over the lanes of a warp, in every lane. All lanes call.
template <class T>
__device__ __forceinline__ T warp_sum(T value) {
  for (int step = static_cast<int>(warp_size) / 2; step > 0; step /= 2)
    value += __shfl_xor_sync(all_lanes, value, step);
  return value;
}
__device__ __forceinline__ std::uint64_t warp_min(std::uint64_t value) {
  for (int step = static_cast<int>(warp_size) / 2; step > 0; step /= 2) {
    std::uint64_t const other = __shfl_xor_sync(all_lanes, value, step);
    if (other < value) value = other;
  }
  return value;
}

/// Counts the lanes of `lanes` that come before `lane`, by default the calling one.
__device__ __forceinline__ unsigned rank_in(unsigned lanes, unsigned lane = lane_id()) {
  return count_lanes(lanes & ((1u << lane) - 1));
}

/// Returns the lane that is number `rank` of those in `lanes`, or -1.
__device__ __forceinline__ int lane_of_rank(unsigned lanes, unsigned rank) {
  if (rank >= count_lanes(lanes)) return -1;
  unsigned at = 0;
  GPUFS_UNROLL
  for (unsigned width = warp_size / 2; width != 0; width /= 2) {
    auto const below = count_lanes(lanes >> at & ((1u << width) - 1));
    if (rank < below) continue;
    rank -= below;
    at += width;
  }
  return static_cast<int>(at);
}

// Teams: the lanes that carry out a step of the page cache together. A team is a full warp, or one
// lane that works by itself. Code that is the same for both is a template of the team.

struct whole_warp {
  static constexpr unsigned size = warp_size;
  __device__ static unsigned lane() { return lane_id(); }
  __device__ static unsigned ballot(bool predicate) { return __ballot_sync(all_lanes, predicate); }
  template <class T>
  __device__ static T broadcast(T value, int from = 0) {
    return warp_broadcast(value, from);
  }
  __device__ static void sync() { __syncwarp(); }
};

struct one_lane {
  static constexpr unsigned size = 1;
  __device__ static unsigned lane() { return 0; }
  __device__ static unsigned ballot(bool predicate) { return predicate ? 1 : 0; }
  template <class T>
  __device__ static T broadcast(T value, int = 0) {
    return value;
  }
  __device__ static void sync() {}
};

/// The number of the calling thread's block in its launch.
__device__ __forceinline__ std::uint32_t block_number() {
  return blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
}

/// Returns a number that differs between the warps of a launch. A warp starts there when it looks
/// for a free channel.
__device__ __forceinline__ std::uint32_t warp_number() {
  std::uint32_t const thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  std::uint32_t const per_block =
      (blockDim.x * blockDim.y * blockDim.z + warp_size - 1) / warp_size;
  return block_number() * per_block + thread / warp_size;
}

}  // namespace gpufs::base
