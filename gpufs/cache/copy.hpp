// How a warp moves bytes: out of the frame into the caller's buffer, and out of pinned staging into
// a frame.
#pragma once

#include <gpufs/device.hpp>
#include <gpufs/warp.hpp>

#include <cstddef>
#include <cstdint>

namespace gpufs {

/// 16-byte accesses in flight per thread: 32 lanes x 8 x 16 bytes = 4 KiB before the first is
/// needed.
inline constexpr unsigned copy_unroll = 8;

namespace detail {

__device__ __forceinline__ std::uint64_t address(void const* p) {
  return reinterpret_cast<std::uintptr_t>(p);
}

/// Units of type Unit, both sides aligned to it. All lanes of a warp call; lane l moves units l, l
/// + 32, ...
template <class Unit>
__device__ __forceinline__ void copy_units(std::byte* dst, std::byte const* src,
                                           std::uint64_t units) {
  auto* const to = reinterpret_cast<Unit*>(dst);
  auto const* const from = reinterpret_cast<Unit const*>(src);
  std::uint64_t i = lane_id();
  for (; i + warp_size * (copy_unroll - 1) < units; i += warp_size * copy_unroll) {
    Unit v[copy_unroll];
    GPUFS_UNROLL
    for (unsigned u = 0; u < copy_unroll; ++u) v[u] = from[i + u * warp_size];
    GPUFS_UNROLL
    for (unsigned u = 0; u < copy_unroll; ++u) to[i + u * warp_size] = v[u];
  }
  for (; i < units; i += warp_size) to[i] = from[i];
}

/// For a few bytes.
__device__ __forceinline__ void copy_bytes(std::byte* dst, std::byte const* src, std::uint64_t n) {
  GPUFS_ROLLED
  for (std::uint64_t i = lane_id(); i < n; i += warp_size) dst[i] = src[i];
}

template <class Unit>
__device__ __forceinline__ void copy_aligned(std::byte* dst, std::byte const* src,
                                             std::uint64_t n) {
  std::uint64_t head = (sizeof(Unit) - address(dst) % sizeof(Unit)) % sizeof(Unit);
  if (head > n) head = n;
  copy_bytes(dst, src, head);
  std::uint64_t const units = (n - head) / sizeof(Unit);
  copy_units<Unit>(dst + head, src + head, units);
  std::uint64_t const done = head + units * sizeof(Unit);
  copy_bytes(dst + done, src + done, n - done);
}

/// Source and destination differ modulo 4: aligned 4-byte stores of words shifted together from two
/// aligned loads.
__device__ __forceinline__ void copy_shifted(std::byte* dst, std::byte const* src,
                                             std::uint64_t n) {
  std::uint64_t head = (4 - address(dst) % 4) % 4;
  if (head > n) head = n;
  copy_bytes(dst, src, head);
  unsigned const shift = static_cast<unsigned>(address(src + head) % 4);
  auto* const to = reinterpret_cast<std::uint32_t*>(dst + head);
  auto const* const from = reinterpret_cast<std::uint32_t const*>(src + head - shift);
  // The last word's second load would reach beyond the source: leave it to the bytes.
  std::uint64_t const words = (n - head) / 4 == 0 ? 0 : (n - head) / 4 - 1;
  for (std::uint64_t i = lane_id(); i < words; i += warp_size)
    to[i] = __funnelshift_r(from[i], from[i + 1], shift * 8);
  std::uint64_t const done = head + words * 4;
  copy_bytes(dst + done, src + done, n - done);
}

}  // namespace detail

/// Copies n bytes between addresses of any alignment in device memory, with the widest accesses
/// both sides allow. All lanes call. A source that is not 4-byte aligned with the destination must
/// be readable from the 4-byte word its first byte lies in.
__device__ __forceinline__ void warp_copy(std::byte* dst, std::byte const* src, std::uint64_t n) {
  std::uint64_t const differ = detail::address(dst) ^ detail::address(src);
  if (differ % 16 == 0) {
    detail::copy_aligned<uint4>(dst, src, n);
  } else if (differ % 8 == 0) {
    detail::copy_aligned<std::uint64_t>(dst, src, n);
  } else if (differ % 4 == 0) {
    detail::copy_aligned<std::uint32_t>(dst, src, n);
  } else {
    detail::copy_shifted(dst, src, n);
  }
}

/// Where a page's bytes go besides its frame: the part of the caller's buffer that falls into the
/// page.
struct page_target {
  std::byte* base;      ///< where byte 0 of the page would go (may lie before the buffer)
  std::uint64_t begin;  ///< first wanted byte of the page
  std::uint64_t end;    ///< one past the last wanted byte that exists
};

/// Pulls bytes [begin, end) of a page out of pinned staging into its frame and on to the target,
/// reading staging once. The page has `got` bytes; the rest of the frame is zeroed. begin and end
/// are multiples of 16. All lanes call.
__device__ __forceinline__ void warp_pull(std::byte* frame, std::byte const* staging,
                                          std::uint64_t begin, std::uint64_t end, std::uint64_t got,
                                          page_target const& target) {
  std::uint64_t const whole =
      got / 16 * 16 < end ? got / 16 * 16 : end;  // units below it are file bytes throughout
  bool const straight = detail::address(target.base) % 16 == 0;
  auto* const to = reinterpret_cast<uint4*>(frame);
  auto* const user = reinterpret_cast<uint4*>(target.base);
  auto const* const from = reinterpret_cast<uint4 const*>(staging);
  std::uint64_t const last = whole / 16;
  // Units [inner_begin, inner_end) are wanted in full and can be stored as such.
  std::uint64_t const inner_begin = straight ? (target.begin + 15) / 16 : 1;
  std::uint64_t const inner_end = straight ? target.end / 16 : 0;
  // ld.cv: staging is rewritten by the host for every request, so nothing may answer from a cache
  // line fetched before.
  std::uint64_t i = begin / 16 + lane_id();
  for (; i + warp_size * (copy_unroll - 1) < last; i += warp_size * copy_unroll) {
    uint4 v[copy_unroll];
    GPUFS_UNROLL
    for (unsigned u = 0; u < copy_unroll; ++u) v[u] = __ldcv(from + i + u * warp_size);
    GPUFS_UNROLL
    for (unsigned u = 0; u < copy_unroll; ++u) {
      std::uint64_t const at = i + u * warp_size;
      to[at] = v[u];
      if (at >= inner_begin && at < inner_end) user[at] = v[u];
    }
  }
  for (; i < last; i += warp_size) {
    uint4 const v = __ldcv(from + i);
    to[i] = v;
    if (i >= inner_begin && i < inner_end) user[i] = v;
  }
  // The unit in which the file ends, and the zeros behind it.
  std::uint64_t const rest = whole > begin ? whole : begin;
  for (std::uint64_t b = rest + lane_id(); b < end; b += warp_size) {
    frame[b] =
        b < got
            ? static_cast<std::byte>(__ldcv(reinterpret_cast<unsigned char const*>(staging) + b))
            : std::byte{0};
  }
  __syncwarp();  // what follows reads back what other lanes stored in the frame
  std::uint64_t const lo = target.begin > begin ? target.begin : begin;
  std::uint64_t const hi = target.end < end ? target.end : end;
  if (lo >= hi) return;
  if (!straight) {
    warp_copy(target.base + lo, frame + lo, hi - lo);
    return;
  }
  // The ends of the wanted range that are not whole units, or lie in the last partial one.
  std::uint64_t const mid_begin = inner_begin * 16 < lo   ? lo
                                  : inner_begin * 16 < hi ? inner_begin * 16
                                                          : hi;
  std::uint64_t const stored = inner_end * 16 < whole ? inner_end * 16 : whole;
  std::uint64_t const mid_end = stored < mid_begin ? mid_begin : stored < hi ? stored : hi;
  detail::copy_bytes(target.base + lo, frame + lo, mid_begin - lo);
  detail::copy_bytes(target.base + mid_end, frame + mid_end, hi - mid_end);
}

}  // namespace gpufs
