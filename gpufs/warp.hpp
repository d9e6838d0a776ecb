// Warp helpers that the page cache and the RPC client share. All 32 lanes call.
#pragma once

#include <gpufs/device.hpp>

#include <cstdint>

// Unrolls the loop that follows, so that its array stays in registers, or does not, so that code
// stays short: what a call runs through once has to be fetched, and a multiprocessor keeps some 100
// KB of it. g++ knows no such pragma and needs none.
#if defined(__CUDACC__)
#define GPUFS_UNROLL _Pragma("unroll")
#define GPUFS_ROLLED _Pragma("unroll 1")
#else
#define GPUFS_UNROLL
#define GPUFS_ROLLED
#endif

// The stages of a call are kept out of line, so that their registers are not the calling kernel's.
// They take the handle from GPU memory (fs_ref::self), so that the kernel's parameter need not be
// copied to the stack.
#if defined(__CUDACC__)
#define GPUFS_STAGE __device__ __noinline__
#else
#define GPUFS_STAGE __attribute__((noinline))
#endif

namespace gpufs {

/// Calls `f` in a way that the compiler does not see through, so that it follows the calling
/// convention: the callee keeps the registers that it needs and the caller uses. Of a direct call
/// the compiler knows better; it gives a long callee most registers, and has the loop around a call
/// that hardly ever happens spill its own in each turn.
///
/// What is called so must not far_call() itself: it could then, for all that ptxas knows, call
/// itself, so that the stack that the kernel needs is not known, and the driver gives it 1 KiB,
/// whatever it needs. The emulated device refuses it.
template <class Result, class... Argument>
__device__ __forceinline__ Result far_call(Result (*f)(Argument...), Argument... argument) {
#if defined(__CUDACC__)
  asm volatile("" : "+l"(f));
#else
  emulated::far_call_scope const far;
#endif
  return f(argument...);
}

inline constexpr unsigned warp_size = 32;
inline constexpr unsigned all_lanes = 0xffffffffu;

/// Lane `from`'s value in every lane.
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

/// The bits that any lane has set, in every lane.
__device__ __forceinline__ std::uint32_t warp_union(std::uint32_t bits) {
  GPUFS_UNROLL
  for (int step = static_cast<int>(warp_size) / 2; step > 0; step /= 2)
    bits |= __shfl_xor_sync(all_lanes, bits, step);
  return bits;
}

/// How many of the lanes in `lanes` come before `lane`, the calling one.
__device__ __forceinline__ unsigned rank_in(unsigned lanes, unsigned lane = lane_id()) {
  return static_cast<unsigned>(__popc(lanes & ((1u << lane) - 1)));
}

/// The lane that is number `rank` of those in `lanes`, or -1.
__device__ __forceinline__ int lane_of_rank(unsigned lanes, unsigned rank) {
  if (rank >= static_cast<unsigned>(__popc(lanes))) return -1;
  unsigned at = 0;
  GPUFS_UNROLL
  for (unsigned width = warp_size / 2; width != 0; width /= 2) {
    auto const below = static_cast<unsigned>(__popc(lanes >> at & ((1u << width) - 1)));
    if (rank < below) continue;
    rank -= below;
    at += width;
  }
  return static_cast<int>(at);
}

// Who carries out a step of the page cache together: a whole warp, or one lane by itself, next to
// lanes that do the same or something else. What they have in common is written once, for either.

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

/// A number that differs between the warps of a launch as far as possible: where a warp starts to
/// look for a free channel.
__device__ __forceinline__ std::uint32_t warp_number() {
  std::uint32_t const block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  std::uint32_t const thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  std::uint32_t const per_block =
      (blockDim.x * blockDim.y * blockDim.z + warp_size - 1) / warp_size;
  return block * per_block + thread / warp_size;
}

}  // namespace gpufs
