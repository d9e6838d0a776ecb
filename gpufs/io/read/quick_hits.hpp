// The usual hits of gread: pages that are ready, moved by units of 16 bytes. This code is inlined
// in kernels and calls nothing, so its values stay in registers.
#pragma once

#include <gpufs/base/copy.hpp>
#include <gpufs/base/settled.hpp>
#include <gpufs/cache/page_table.hpp>
#include <gpufs/io/group.hpp>
#include <gpufs/io/read/move_pages.hpp>
#include <gpufs/io/read/read_hits.hpp>

#include <cstddef>
#include <cstdint>

namespace gpufs::io {

using namespace base;

/// Whether read_quick_hits() can read the span: the buffer and the span's ends are multiples of 16.
__device__ __forceinline__ bool is_quick(read_span const& span) {
  auto const ends = static_cast<std::uint32_t>(address(span.buffer)) |
                    static_cast<std::uint32_t>(span.begin) | static_cast<std::uint32_t>(span.end);
  return span.buffer != nullptr && ends % sizeof(uint4) == 0;
}

/// Asks for the sector of 32 bytes to come into the L2. Any thread calls. It orders nothing, and
/// brings nothing into the L1.
__device__ __forceinline__ void ask_for_sector(std::byte const* at) {
#if defined(__CUDACC__)
  asm volatile("prefetch.global.L2 [%0];" ::"l"(__cvta_generic_to_global(at)));
#else
  static_cast<void>(at);
#endif
}

/// What a warp moves by one load per unit of copy_unroll: 4 KiB.
inline constexpr std::uint32_t moved_at_once = copy_unroll * warp_size * sizeof(uint4);

enum class quick_look {
  delivered,
  absent,  ///< not in the table
  other,   ///< not ready, short, being evicted, or hard to find: look again
};

/// Has the first bytes of a page come into the L2 while its frame is pinned. All lanes of a warp
/// call.
__device__ __forceinline__ void ask_for_bytes(std::byte const* from, std::uint32_t bytes) {
  constexpr std::uint32_t sector = 32;
  std::uint32_t const mine = lane_id() * sector;
  if (bytes >= moved_at_once) {
    GPUFS_UNROLL
    for (std::uint32_t at = 0; at < moved_at_once; at += warp_size * sector)
      ask_for_sector(from + mine + at);
  } else if (mine < bytes) {
    ask_for_sector(from + mine);
  }
}

/// Loads a unit of a frame from memory, not from this multiprocessor's cache. Any thread calls.
__device__ __forceinline__ uint4 load_unit(uint4 const* from) {
#if defined(__CUDACC__)
  uint4 v;
  asm volatile("ld.relaxed.gpu.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(__cvta_generic_to_global(from)));
  return v;
#else
  return *from;
#endif
}

/// load_unit() before the page's name is known. The load may meet stores to another page, so the
/// value counts only for the right name.
GPUFS_NO_TSAN __device__ inline uint4 load_early(uint4 const* from) {
#if defined(__CUDACC__)
  return load_unit(from);
#else
  return *from;
#endif
}

/// Moves units of 16 bytes by load_unit(). `to` and `from`: of the calling lane. All lanes of a
/// warp call.
__device__ __forceinline__ void move_units(uint4* to, uint4 const* from, std::uint32_t units) {
  std::uint32_t done = 0;
  GPUFS_ROLLED
  for (; done + warp_size * copy_unroll <= units; done += warp_size * copy_unroll) {
    uint4 value[copy_unroll];
    GPUFS_UNROLL
    for (unsigned u = 0; u < copy_unroll; ++u) value[u] = load_unit(from + done + u * warp_size);
    GPUFS_UNROLL
    for (unsigned u = 0; u < copy_unroll; ++u) to[done + u * warp_size] = value[u];
  }
  GPUFS_ROLLED
  for (; done + lane_id() < units; done += warp_size) to[done] = load_unit(from + done);
}

/// Moves Count units per lane, if the page is the right one. is_good() looks at its name; its loads
/// are under way with those of the bytes. `present`: the calling lane has its units. All lanes of a
/// warp call. Returns the answer of is_good().
template <unsigned Count, class Good>
__device__ __forceinline__ bool move_if(uint4* to, uint4 const* from, bool present,
                                        Good&& is_good) {
  // Loaded before the name: the compiler then leaves the loads here, where they wait for nothing.
  uint4 value[Count];
  GPUFS_UNROLL
  for (unsigned u = 0; u < Count; ++u) value[u] = load_early(from + u * warp_size);
  bool const good = is_good();
  if (good && present) {
    GPUFS_UNROLL
    for (unsigned u = 0; u < Count; ++u) to[u * warp_size] = value[u];
  } else {  // what is stored has returned; the rest must have, too, before the pin goes
    std::uint32_t mark = 0;
    GPUFS_UNROLL
    for (unsigned u = 0; u < Count; ++u) mark |= value[u].x | value[u].w;
    await_loads(mark);
  }
  return good;
}

/// Copies bytes [part.begin, part.end) of a page to `to` + part.begin if it is in the cache, ready,
/// and has them. The ends of `part` and `to` are multiples of 16. All lanes of a warp call and get
/// the answer.
///
/// A hit takes three trips to memory: the bucket, the pin, and then the name together with the
/// bytes, if they are 4 KiB or at most 512 bytes. The pinned frame is ready, so it keeps its page.
/// The bytes are stored when it is known that they are the right page's. While the pin is under
/// way, they come into the L2.
__device__ __forceinline__ quick_look read_quick_hit(handle::page_cache_ref const& cache,
                                                     std::uint64_t version, std::uint64_t page,
                                                     std::byte* to, slice const part) {
  unsigned const lane = lane_id();
  cache::page_location const at = cache::locate(cache, version, page);
  std::uint64_t const entry =
      cache::bucket_entry(cache, at.bucket, lane).load(memory_order_relaxed);
  unsigned const candidates = __ballot_sync(all_lanes, at.may_be(entry));
  if (candidates == 0) return quick_look::absent;
  // If another page has the same tag, the first candidate may be the wrong one.
  auto const finder = static_cast<int>(lowest_lane(candidates));
  // The lane that found the page pins it. It takes the frame from its own entry: if the address
  // came from `frame`, ptxas would see that it is the same in all lanes, and would add code that
  // combines the pins of several lanes.
  bool const pins = static_cast<int>(lane) == finder;
  std::uint32_t const own_frame = static_cast<std::uint32_t>(entry) - 1;
  std::uint64_t state = 0;
  if (pins) state = cache::pin_to_load(cache.headers[own_frame]);
  std::uint32_t const frame = warp_broadcast(static_cast<std::uint32_t>(entry), finder) - 1;
  std::byte const* const from = cache::frame_bytes(cache, frame) + part.begin;
  std::uint32_t const bytes = part.end - part.begin;
  ask_for_bytes(from, bytes);
  auto const seen = static_cast<cache::phase>(
      warp_broadcast(static_cast<std::uint32_t>(cache::phase_of(state)), finder));
  __syncwarp();  // all lanes come after the pin
  cache::frame_header& h = cache.headers[frame];
  // Behind the pin. A ready frame keeps both while it is pinned, so all lanes see the same.
  auto const is_good = [&] {
    std::uint32_t const valid = cache::valid_bytes(h);
    bool const ours = cache::names(h, version, page) && valid >= part.end;
    return (__ballot_sync(all_lanes, ours) & 1) != 0;
  };
  auto const* const source = reinterpret_cast<uint4 const*>(from);
  auto* const target = reinterpret_cast<uint4*>(to + part.begin) + lane;
  std::uint32_t const units = bytes / sizeof(uint4);
  bool good = false;
  if (seen != cache::phase::ready) {
    // Whoever needs the page waits for it later.
  } else if (bytes == moved_at_once) {
    good = move_if<copy_unroll>(target, source + lane, true, is_good);
  } else if (units <= warp_size) {
    good = move_if<1>(target, source + least(lane, units - 1), lane < units, is_good);
  } else {
    good = is_good();
    if (good) move_units(target, source + lane, units);
  }
  __syncwarp();  // all lanes have read before the pin goes
  if (pins) {
    cache::frame_header& pinned = cache.headers[own_frame];
    if (good && cache::marks_hits(cache.policy))
      atomic_ref<std::uint32_t, scope::device>(pinned.referenced).store(1, memory_order_relaxed);
    cache::unpin_read(pinned);
  }
  return good ? quick_look::delivered : quick_look::other;
}

/// The next pages of a span that is_quick(), and the bytes of them that it wants. Within a batch 32
/// bits suffice: it has at most 32 pages of at most 4 MiB.
struct quick_batch {
  std::byte* to;        ///< where byte 0 of the first page would go; may lie before the buffer
  std::uint64_t first;  ///< number of the first page
  std::uint32_t pages;
  std::uint32_t begin;  ///< the first byte that is wanted, from the first page's start
  std::uint32_t end;    ///< one past the last

  /// The batch of `pages` pages from `page` on.
  __device__ quick_batch(read_span const& span, std::uint64_t page, std::uint32_t pages)
      : first(page), pages(pages) {
    std::uint64_t const start = page << span.page_shift;
    to = span.buffer + static_cast<std::int64_t>(start - span.begin);
    begin = span.begin > start ? static_cast<std::uint32_t>(span.begin - start) : 0;
    end = static_cast<std::uint32_t>(
        least(span.end - start, std::uint64_t{pages} << span.page_shift));
  }
};

/// Delivers the batch's ready pages that fall to warp `warp` of `warps`. `team` warps share a page,
/// and each of them finds and pins it alone, so hits need no barrier. With team > 1, batch * team
/// is at most `warps`. All lanes of the warp call. Nothing stops the read.
///
/// `fs` is the caller's handle. If it is a parameter of the kernel, its members need no loads.
__device__ __forceinline__ hits_read read_quick_hits(fs_ref const& fs, read_span const& span,
                                                     quick_batch const& batch, unsigned team,
                                                     unsigned warp, unsigned warps) {
  // A copy: else each access loads its members again, behind the stores of a whole page.
  handle::page_cache_ref const cache = fs.cache;
  hits_read r;
  std::uint32_t const changes = load_changes(fs);
  bool const alone = team == 1;
  unsigned const step = alone ? warps : warps / team;
  unsigned const member = alone ? 0 : warp % team;
  GPUFS_ROLLED
  for (unsigned i = alone ? warp : warp / team; i < batch.pages; i += step) {
    std::uint32_t const start = i << cache.page_shift;
    slice part{i == 0 ? batch.begin : 0,
               least(batch.end - start, std::uint32_t{1} << cache.page_shift)};
    if (!alone) part = slice_of(part.begin, part.end, member, team);
    if (part.begin >= part.end) continue;
    quick_look const look =
        read_quick_hit(cache, span.version, batch.first + i, batch.to + start, part);
    if (look == quick_look::delivered) continue;
    r.missing.todo |= 1u << i;
    if (look == quick_look::absent) r.missing.absent |= 1u << i;
  }
  __syncwarp();
  r.outdated = is_outdated(span, changes);
  return r;
}

}  // namespace gpufs::io
