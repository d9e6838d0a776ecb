// CUDA's integer intrinsics, cache-hinted loads and stores, and min/max, for the emulated device.
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

inline int __popc(unsigned x) { return std::popcount(x); }
inline int __popcll(unsigned long long x) { return std::popcount(x); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }
inline int __clz(int x) { return std::countl_zero(unsigned(x)); }
inline int __clzll(long long x) { return std::countl_zero(static_cast<unsigned long long>(x)); }

inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
  return unsigned((std::uint64_t(high) << 32 | low) >> (shift & 31));
}
inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
  return unsigned((std::uint64_t(high) << 32 | low) << (shift & 31) >> 32);
}
inline unsigned __brev(unsigned x) {
  x = (x >> 1 & 0x55555555u) | (x & 0x55555555u) << 1;
  x = (x >> 2 & 0x33333333u) | (x & 0x33333333u) << 2;
  x = (x >> 4 & 0x0f0f0f0fu) | (x & 0x0f0f0f0fu) << 4;
  return __builtin_bswap32(x);
}

namespace gpufs::emulated {
// Types for which CUDA has cache-hinted loads and stores: scalars of up to 8 bytes, vectors of up
// to 16.
template <class T>
concept cache_hinted = std::is_trivially_copyable_v<T> &&(sizeof(T) <= 8 || sizeof(T) == 16);
}  // namespace gpufs::emulated

// Plain accesses, since the emulated device has no cache hints.
template <gpufs::emulated::cache_hinted T>
T __ldcv(T const* p) {
  return *p;
}
template <gpufs::emulated::cache_hinted T>
T __ldcg(T const* p) {
  return *p;
}
template <gpufs::emulated::cache_hinted T>
T __ldca(T const* p) {
  return *p;
}
template <gpufs::emulated::cache_hinted T>
T __ldcs(T const* p) {
  return *p;
}
template <gpufs::emulated::cache_hinted T>
T __ldg(T const* p) {
  return *p;
}
template <gpufs::emulated::cache_hinted T>
void __stcg(T* p, std::type_identity_t<T> value) {
  *p = value;
}
template <gpufs::emulated::cache_hinted T>
void __stcs(T* p, std::type_identity_t<T> value) {
  *p = value;
}
template <gpufs::emulated::cache_hinted T>
void __stwb(T* p, std::type_identity_t<T> value) {
  *p = value;
}
template <gpufs::emulated::cache_hinted T>
void __stwt(T* p, std::type_identity_t<T> value) {
  *p = value;
}

// Exactly CUDA's overloads. A call that is ambiguous there is ambiguous here.
#define GPUFS_MIN_MAX(RESULT, A, B)                                                  \
  constexpr RESULT min(A a, B b) {                                                   \
    return static_cast<RESULT>(a) < static_cast<RESULT>(b) ? static_cast<RESULT>(a)  \
                                                           : static_cast<RESULT>(b); \
  }                                                                                  \
  constexpr RESULT max(A a, B b) {                                                   \
    return static_cast<RESULT>(a) < static_cast<RESULT>(b) ? static_cast<RESULT>(b)  \
                                                           : static_cast<RESULT>(a); \
  }
GPUFS_MIN_MAX(int, int, int)
GPUFS_MIN_MAX(unsigned, unsigned, unsigned)
GPUFS_MIN_MAX(unsigned, int, unsigned)
GPUFS_MIN_MAX(unsigned, unsigned, int)
GPUFS_MIN_MAX(long, long, long)
GPUFS_MIN_MAX(unsigned long, unsigned long, unsigned long)
GPUFS_MIN_MAX(unsigned long, long, unsigned long)
GPUFS_MIN_MAX(unsigned long, unsigned long, long)
GPUFS_MIN_MAX(long long, long long, long long)
GPUFS_MIN_MAX(unsigned long long, unsigned long long, unsigned long long)
GPUFS_MIN_MAX(unsigned long long, long long, unsigned long long)
GPUFS_MIN_MAX(unsigned long long, unsigned long long, long long)
GPUFS_MIN_MAX(float, float, float)
GPUFS_MIN_MAX(double, double, double)
GPUFS_MIN_MAX(double, float, double)
GPUFS_MIN_MAX(double, double, float)
#undef GPUFS_MIN_MAX
