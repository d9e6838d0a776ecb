// CUDA's barriers and warp intrinsics on the emulated device. Only __syncwarp and barriers order
// memory. Shuffles and votes do not, as on the GPU.
#pragma once

#include <gpufs/device/emulated/threads.hpp>

#include <cstring>
#include <source_location>
#include <type_traits>

namespace gpufs::emulated {

template <class T>
inline constexpr bool shuffles = std::is_trivially_copyable_v<T> &&
                                 (sizeof(T) == 4 || sizeof(T) == 8);

template <class T>
std::uint64_t to_bits(T const& value) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  return bits;
}

template <class T>
T shuffle(unsigned mask, T const& value, unsigned source, place const& where) {
  static_assert(shuffles<T>, "shuffles move trivially copyable values of 4 or 8 bytes");
  std::uint64_t const bits =
      warp_rendezvous(warp_operation::shuffle, mask, to_bits(value), source, where);
  T result;
  std::memcpy(&result, &bits, sizeof(T));
  return result;
}

}  // namespace gpufs::emulated

inline void __syncthreads(std::source_location const& where = std::source_location::current()) {
  gpufs::emulated::block_barrier(gpufs::emulated::reduction::none, false, where);
}
inline int __syncthreads_or(int predicate,
                            std::source_location const& where = std::source_location::current()) {
  return gpufs::emulated::block_barrier(gpufs::emulated::reduction::any, predicate != 0, where);
}
inline int __syncthreads_and(int predicate,
                             std::source_location const& where = std::source_location::current()) {
  return gpufs::emulated::block_barrier(gpufs::emulated::reduction::all, predicate != 0, where);
}
inline int __syncthreads_count(
    int predicate, std::source_location const& where = std::source_location::current()) {
  return gpufs::emulated::block_barrier(gpufs::emulated::reduction::count, predicate != 0, where);
}

inline void __syncwarp(unsigned mask = 0xffffffffu,
                       std::source_location const& where = std::source_location::current()) {
  gpufs::emulated::warp_rendezvous(gpufs::emulated::warp_operation::sync, mask, 0, 0, where);
}
inline unsigned __ballot_sync(unsigned mask, int predicate,
                              std::source_location const& where = std::source_location::current()) {
  return unsigned(gpufs::emulated::warp_rendezvous(gpufs::emulated::warp_operation::ballot, mask,
                                                   predicate != 0, 0, where));
}
inline int __any_sync(unsigned mask, int predicate,
                      std::source_location const& where = std::source_location::current()) {
  return int(gpufs::emulated::warp_rendezvous(gpufs::emulated::warp_operation::any, mask,
                                              predicate != 0, 0, where));
}
inline int __all_sync(unsigned mask, int predicate,
                      std::source_location const& where = std::source_location::current()) {
  return int(gpufs::emulated::warp_rendezvous(gpufs::emulated::warp_operation::all, mask,
                                              predicate != 0, 0, where));
}
template <class T>
unsigned __match_any_sync(unsigned mask, T value,
                          std::source_location const& where = std::source_location::current()) {
  static_assert(gpufs::emulated::shuffles<T>, "__match_any_sync compares values of 4 or 8 bytes");
  return unsigned(gpufs::emulated::warp_rendezvous(gpufs::emulated::warp_operation::match_any, mask,
                                                   gpufs::emulated::to_bits(value), 0, where));
}

// A lane whose shuffle would leave its segment of `width` lanes gets its own value.
template <class T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32,
              std::source_location const& where = std::source_location::current()) {
  unsigned const w = unsigned(width);
  unsigned const lane = gpufs::emulated::this_thread().lane;
  return gpufs::emulated::shuffle(mask, value, (lane & ~(w - 1)) | (unsigned(source) & (w - 1)),
                                  where);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32,
                 std::source_location const& where = std::source_location::current()) {
  unsigned const lane = gpufs::emulated::this_thread().lane;
  bool const inside = delta <= (lane & (unsigned(width) - 1));
  return gpufs::emulated::shuffle(mask, value, inside ? lane - delta : lane, where);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32,
                   std::source_location const& where = std::source_location::current()) {
  unsigned const lane = gpufs::emulated::this_thread().lane;
  bool const inside = delta < unsigned(width) - (lane & (unsigned(width) - 1));
  return gpufs::emulated::shuffle(mask, value, inside ? lane + delta : lane, where);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = 32,
                  std::source_location const& where = std::source_location::current()) {
  unsigned const lane = gpufs::emulated::this_thread().lane;
  unsigned const source = lane ^ unsigned(lane_mask);
  bool const inside = source < 32 && source / unsigned(width) <= lane / unsigned(width);
  return gpufs::emulated::shuffle(mask, value, inside ? source : lane, where);
}

inline void __nanosleep(unsigned) { gpufs::emulated::yield_waiting(false); }

[[noreturn]] inline void __trap(
    std::source_location const& where = std::source_location::current()) {
  gpufs::emulated::fail_launch("__trap() was called", where);
}
