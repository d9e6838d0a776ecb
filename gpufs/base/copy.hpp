// Copies by a warp: from a frame to the caller's buffer, and from pinned staging to a frame.
#pragma once

#include <gpufs/base/warp.hpp>
#include <gpufs/device.hpp>

#include <cstddef>
#include <cstdint>

namespace gpufs::base {

/// 16-byte accesses in flight per thread. A warp has 32 x 8 x 16 bytes = 4 KiB under way.
inline constexpr unsigned copy_unroll = 8;

__device__ __forceinline__ std::uint64_t address(void const* p) {
  return reinterpret_cast<std::uintptr_t>(p);
}

// All of these move bytes of one page, which has at most 4 MiB. So lengths have 32 bits: a GPU
// takes two instructions and more for each step with 64.

/// Copies units of type Unit; both sides are aligned to it. All lanes of a warp call. Lane l moves
/// units l, l + 32, and so on.
template <class Unit>
__device__ __forceinline__ void copy_units(std::byte* dst, std::byte const* src,
                                           std::uint32_t units) {
  auto* to = reinterpret_cast<Unit*>(dst) + lane_id();
  auto const* from = reinterpret_cast<Unit const*>(src) + lane_id();
  std::uint32_t i = lane_id();
  for (; i + warp_size * (copy_unroll - 1) < units; i += warp_size * copy_unroll) {
    Unit v[copy_unroll];
    GPUFS_UNROLL
    for (unsigned u = 0; u < copy_unroll; ++u) v[u] = from[u * warp_size];
    GPUFS_UNROLL
    for (unsigned u = 0; u < copy_unroll; ++u) to[u * warp_size] = v[u];
    to += warp_size * copy_unroll;
    from += warp_size * copy_unroll;
  }
  for (; i < units; i += warp_size, to += warp_size, from += warp_size) *to = *from;
}

/// Copies a few bytes. All lanes of a warp call.
__device__ __forceinline__ void copy_bytes(std::byte* dst, std::byte const* src, std::uint32_t n) {
  GPUFS_ROLLED
  for (std::uint32_t i = lane_id(); i < n; i += warp_size) dst[i] = src[i];
}

template <class Unit>
__device__ __forceinline__ void copy_aligned(std::byte* dst, std::byte const* src,
                                             std::uint32_t n) {
  constexpr std::uint32_t size = sizeof(Unit);
  std::uint32_t const head =
      least((size - static_cast<std::uint32_t>(address(dst)) % size) % size, n);
  if (head != 0) {
    copy_bytes(dst, src, head);
    dst += head;
    src += head;
    n -= head;
  }
  copy_units<Unit>(dst, src, n / size);
  if (n % size != 0) copy_bytes(dst + n / size * size, src + n / size * size, n % size);
}

/// Copies between addresses that differ modulo 4. All lanes of a warp call. A lane shifts two
/// aligned loads together into one aligned 4-byte store.
__device__ __forceinline__ void copy_shifted(std::byte* dst, std::byte const* src,
                                             std::uint32_t n) {
  std::uint32_t head = (4 - static_cast<std::uint32_t>(address(dst)) % 4) % 4;
  unsigned const shift = static_cast<unsigned>(address(src + head) % 4);
  // The first word's load would reach before the source, where others may be writing.
  if (head < shift) head += 4;
  if (head > n) head = n;
  copy_bytes(dst, src, head);
  auto* const to = reinterpret_cast<std::uint32_t*>(dst + head);
  auto const* const from = reinterpret_cast<std::uint32_t const*>(src + head - shift);
  // The last word's second load would reach beyond the source. The byte loop copies that word.
  std::uint32_t const words = (n - head) / 4 == 0 ? 0 : (n - head) / 4 - 1;
  for (std::uint32_t i = lane_id(); i < words; i += warp_size)
    to[i] = __funnelshift_r(from[i], from[i + 1], shift * 8);
  std::uint32_t const done = head + words * 4;
  copy_bytes(dst + done, src + done, n - done);
}

/// Copies n bytes of device memory, with the widest accesses that both alignments allow. All lanes
/// of a warp call. No other byte of the source is read.
__device__ __forceinline__ void warp_copy(std::byte* dst, std::byte const* src, std::uint32_t n) {
  auto const differ = static_cast<std::uint32_t>(address(dst) ^ address(src));
  if (differ % 16 == 0) {
    copy_aligned<uint4>(dst, src, n);
  } else if (differ % 8 == 0) {
    copy_aligned<std::uint64_t>(dst, src, n);
  } else if (differ % 4 == 0) {
    copy_aligned<std::uint32_t>(dst, src, n);
  } else {
    copy_shifted(dst, src, n);
  }
}

/// The part of the caller's buffer that takes bytes of one page.
struct page_target {
  std::byte* base;      ///< where byte 0 of the page would go; may lie before the buffer
  std::uint32_t begin;  ///< first byte of the page that the caller asks for
  std::uint32_t end;    ///< one past the last such byte that exists
};

/// Pulls bytes [begin, end) of a page from pinned staging into its frame and into the target. Reads
/// staging once. The page has `got` bytes; the rest of the frame is zeroed. begin and end are
/// multiples of 16. All lanes of a warp call.
__device__ __forceinline__ void warp_pull(std::byte* frame, std::byte const* staging,
                                          std::uint32_t begin, std::uint32_t end, std::uint32_t got,
                                          page_target const& target) {
  // units below `whole` hold file bytes only
  std::uint32_t const whole = got / 16 * 16 < end ? got / 16 * 16 : end;
  bool const straight = address(target.base) % 16 == 0;
  std::uint32_t const last = whole / 16;
  // Units [inner_begin, inner_end) lie in the target in full and are stored as units.
  std::uint32_t const inner_begin = straight ? (target.begin + 15) / 16 : 1;
  std::uint32_t const inner_end = straight ? target.end / 16 : 0;
  // The host rewrites staging for every request. ld.cv never answers from a line cached earlier.
  std::uint32_t i = begin / 16 + lane_id();
  auto* to = reinterpret_cast<uint4*>(frame) + i;
  auto* const user = reinterpret_cast<uint4*>(target.base);  // null: no unit is inner
  auto const* from = reinterpret_cast<uint4 const*>(staging) + i;
  for (; i + warp_size * (copy_unroll - 1) < last; i += warp_size * copy_unroll) {
    uint4 v[copy_unroll];
    GPUFS_UNROLL
    for (unsigned u = 0; u < copy_unroll; ++u) v[u] = __ldcv(from + u * warp_size);
    GPUFS_UNROLL
    for (unsigned u = 0; u < copy_unroll; ++u) {
      std::uint32_t const at = i + u * warp_size;
      to[u * warp_size] = v[u];
      if (at >= inner_begin && at < inner_end) user[at] = v[u];
    }
    to += warp_size * copy_unroll;
    from += warp_size * copy_unroll;
  }
  for (; i < last; i += warp_size, to += warp_size, from += warp_size) {
    uint4 const v = __ldcv(from);
    *to = v;
    if (i >= inner_begin && i < inner_end) user[i] = v;
  }
  // The unit in which the file ends, and the zeros behind it.
  for (std::uint32_t b = most(whole, begin) + lane_id(); b < end; b += warp_size) {
    frame[b] =
        b < got
            ? static_cast<std::byte>(__ldcv(reinterpret_cast<unsigned char const*>(staging) + b))
            : std::byte{0};
  }
  __syncwarp();  // the code below reads bytes that other lanes stored in the frame
  std::uint32_t const lo = most(target.begin, begin);
  std::uint32_t const hi = least(target.end, end);
  if (lo >= hi) return;
  if (!straight) {
    warp_copy(target.base + lo, frame + lo, hi - lo);
    return;
  }
  // The ends of the target that are not full units, or lie in the last partial unit.
  std::uint32_t const mid_begin = most(lo, least(inner_begin * 16, hi));
  std::uint32_t const mid_end = most(mid_begin, least(least(inner_end * 16, whole), hi));
  copy_bytes(target.base + lo, frame + lo, mid_begin - lo);
  copy_bytes(target.base + mid_end, frame + mid_end, hi - mid_end);
}

/// The bytes of a page on their way from pinned staging to its frame and to the caller's buffer.
struct page_pull {
  std::byte const* staging;
  std::byte* frame;
  std::byte* target;
};

/// Pulls two pages of `bytes` bytes each, with twice the accesses under way that warp_pull() has.
/// `bytes` is a multiple of 4096, and the addresses are multiples of 16. All lanes of a warp call.
__device__ __forceinline__ void warp_pull_two(page_pull const& a, page_pull const& b,
                                              std::uint32_t bytes) {
  GPUFS_ROLLED
  for (std::uint32_t i = lane_id(); i < bytes / 16; i += warp_size * copy_unroll) {
    uint4 v[2 * copy_unroll];
    GPUFS_UNROLL
    for (unsigned u = 0; u < copy_unroll; ++u) {
      std::uint32_t const at = i + u * warp_size;
      v[u] = __ldcv(reinterpret_cast<uint4 const*>(a.staging) + at);
    }
    GPUFS_UNROLL
    for (unsigned u = 0; u < copy_unroll; ++u) {
      std::uint32_t const at = i + u * warp_size;
      v[copy_unroll + u] = __ldcv(reinterpret_cast<uint4 const*>(b.staging) + at);
    }
    GPUFS_UNROLL
    for (unsigned u = 0; u < copy_unroll; ++u) {
      std::uint32_t const at = i + u * warp_size;
      reinterpret_cast<uint4*>(a.frame)[at] = v[u];
      reinterpret_cast<uint4*>(a.target)[at] = v[u];
    }
    GPUFS_UNROLL
    for (unsigned u = 0; u < copy_unroll; ++u) {
      std::uint32_t const at = i + u * warp_size;
      reinterpret_cast<uint4*>(b.frame)[at] = v[copy_unroll + u];
      reinterpret_cast<uint4*>(b.target)[at] = v[copy_unroll + u];
    }
  }
}

}  // namespace gpufs::base
