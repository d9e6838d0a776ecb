// Loading from cached pages without pinning them: look where the page is, load, and look whether it
// is still there. A hit costs no atomic change, and lanes that load from one page cost one look in
// all, since their loads of the same words are one.
#pragma once

#include <gpufs/cache/page_table.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace gpufs {

/// A frame that held a ready page, in the generation of `state`.
struct seen_frame {
  frame_header* header = nullptr;
  std::uint64_t state = 0;
  std::byte const* bytes = nullptr;
  std::uint32_t valid = 0;  ///< bytes of the page that the file has
};

namespace detail {

template <std::size_t Alignment>
using unit_of = std::conditional_t<
    Alignment % 8 == 0, std::uint64_t,
    std::conditional_t<Alignment % 4 == 0, std::uint32_t,
                       std::conditional_t<Alignment % 2 == 0, std::uint16_t, std::uint8_t>>>;

/// An object as it lies in memory now: not what this multiprocessor's cache has of it. `mark` gets
/// a bit pattern that depends on every load. The loads may meet stores of a frame's next owner:
/// what they give is used only after still_there().
template <class T>
GPUFS_NO_TSAN __device__ inline T load_now(std::byte const* from, std::uint32_t& mark) {
  using unit = unit_of<alignof(T)>;
  constexpr unsigned units = sizeof(T) / sizeof(unit);
  unit word[units];
  auto const* const at = reinterpret_cast<unit const volatile*>(from);
  GPUFS_UNROLL
  for (unsigned i = 0; i < units; ++i) word[i] = at[i];
  mark = 0;
  GPUFS_UNROLL
  for (unsigned i = 0; i < units; ++i) mark |= static_cast<std::uint32_t>(word[i]);
  T value;
  std::memcpy(&value, word, sizeof(T));
  return value;
}

/// Whether the frame has the page ready, and then all that see_page() says.
__device__ __forceinline__ bool see_frame(page_cache_ref const& c, std::uint32_t frame,
                                          std::uint64_t uid, std::uint64_t page, seen_frame& seen) {
  frame_header& h = c.headers[frame];
  // Acquire pairs with publish(): the name, the bytes and their number are those of this
  // generation, or of a later one, which still_there() finds out. On the GPU all loads behind this
  // one go to memory, not to a cache that would have to be emptied first, and the branch has them
  // issued after it.
#if defined(__CUDACC__)
  std::uint64_t const state = frame_state(h).load(memory_order_relaxed);
#else
  std::uint64_t const state = frame_state(h).load(memory_order_acquire);
#endif
  if (phase_of(state) != phase::ready) return false;
  std::uint32_t const valid = valid_bytes(h);
  if (!names(h, uid, page)) return false;
  if (c.policy == replacement::clock)
    atomic_ref<std::uint32_t, scope::device>(h.referenced).store(1, memory_order_relaxed);
  seen = {&h, state, frame_bytes(c, frame), valid};
  return true;
}

/// Looks for a ready page in ways [First, First + Count) of its bucket from its home on, together.
template <unsigned First, unsigned Count>
__device__ __forceinline__ bool see_ways(page_cache_ref const& c, page_location const& at,
                                         std::uint64_t uid, std::uint64_t page, seen_frame& seen) {
  std::uint64_t entry[Count];
  GPUFS_UNROLL
  for (unsigned i = 0; i < Count; ++i)
    entry[i] = bucket_entry(c, at.bucket, (at.home() + First + i) % bucket_ways)
                   .load(memory_order_relaxed);
  bool found = false;
  GPUFS_UNROLL
  for (unsigned i = 0; i < Count; ++i) {
    if (found || !at.may_be(entry[i])) continue;
    found = see_frame(c, static_cast<std::uint32_t>(entry[i]) - 1, uid, page, seen);
  }
  return found;
}

/// Ways of a bucket, from a page's home on, that see_page() looks in: nearly all pages are there.
/// see_page_further() has the rest.
inline constexpr unsigned near_ways = 4;

}  // namespace detail

/// Looks for a ready page in the first ways of its bucket from its home on, where nearly all pages
/// are. Any single thread calls; nothing is pinned, nobody waits. Returns whether it was seen
/// there: what is then loaded from it is used only if it is still_there() after that.
__device__ __forceinline__ bool see_page(page_cache_ref const& c, std::uint64_t uid,
                                         std::uint64_t page, seen_frame& seen) {
  page_location const at = locate(c, uid, page);
  return detail::see_ways<0, 1>(c, at, uid, page, seen) ||
         detail::see_ways<1, detail::near_ways - 1>(c, at, uid, page, seen);
}

/// The same in all other ways, where one page in a hundred is. header is nullptr if it was not seen
/// there either.
GPUFS_STAGE inline seen_frame see_page_further(page_cache_ref const* c, std::uint64_t uid,
                                               std::uint64_t page) {
  constexpr unsigned first = detail::near_ways, half = (bucket_ways - first) / 2;
  static_assert(first + 2 * half == bucket_ways);
  page_location const at = locate(*c, uid, page);
  seen_frame seen;
  if (!detail::see_ways<first, half>(*c, at, uid, page, seen) &&
      !detail::see_ways<first + half, half>(*c, at, uid, page, seen))
    return {};
  return seen;
}

/// Whether the frame has held the same page since it was seen in `state`, so that what has been
/// loaded from it since is the page's. `mark`: of the last load, all others having been used
/// before.
///
/// Why this is enough: the next owner stores to the frame after his claim() has succeeded, and
/// begin_fill() makes the generation another one before publish() makes the frame ready again. A
/// load that met one of his stores comes after that claim; a look at the state that comes after the
/// load sees the claim, or a later generation. On the GPU the look is issued when the load has
/// returned. Elsewhere it is a read-modify-write that releases, with which the claim, reading from
/// it, synchronises: then the owner's stores come after the loads.
__device__ __forceinline__ bool still_there(frame_header* seen, std::uint64_t state,
                                            std::uint32_t mark) {
  return (load_behind(seen->state, mark) ^ state) >> phase_shift == 0;
}

}  // namespace gpufs
