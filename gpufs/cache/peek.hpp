// Loads from cached pages without a pin: see the page, load, and check that it is still there. A
// hit takes no atomic change. Lanes that load from one page make the same loads, which the hardware
// merges.
#pragma once

#include <gpufs/cache/page_table.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace gpufs::cache {

using namespace base;

/// A frame that held a ready page, in the generation of `state`.
struct seen_frame {
  frame_header* header = nullptr;
  std::uint64_t state = 0;
  std::byte const* bytes = nullptr;
  std::uint32_t valid = 0;  ///< bytes of the page that the file has
};

template <std::size_t Alignment>
using unit_of = std::conditional_t<
    Alignment % 8 == 0, std::uint64_t,
    std::conditional_t<Alignment % 4 == 0, std::uint32_t,
                       std::conditional_t<Alignment % 2 == 0, std::uint16_t, std::uint8_t>>>;

/// Bits for await_loads() that depend on every byte of a loaded object. Any thread calls.
template <class T>
__device__ inline std::uint32_t mark_of_object(T const& value) {
  using unit = unit_of<alignof(T)>;
  unit word[sizeof(T) / sizeof(unit)];
  std::memcpy(word, &value, sizeof(T));
  std::uint32_t mark = 0;
  GPUFS_UNROLL
  for (unit const w : word) mark |= mark_of(w);
  return mark;
}

/// Loads an object from memory, not from this multiprocessor's cache. Any thread calls. `mark` gets
/// bits that depend on every load. The loads may meet stores of the frame's next owner. So use the
/// value only after still_there().
template <class T>
GPUFS_NO_TSAN __device__ inline T load_now(std::byte const* from, std::uint32_t& mark) {
  using unit = unit_of<alignof(T)>;
  constexpr unsigned units = sizeof(T) / sizeof(unit);
  unit word[units];
  auto const* const at = reinterpret_cast<unit const volatile*>(from);
  GPUFS_UNROLL
  for (unsigned i = 0; i < units; ++i) word[i] = at[i];
  T value;
  std::memcpy(&value, word, sizeof(T));
  mark = mark_of_object(value);
  return value;
}

/// The default of `early` below: loads nothing.
struct nothing_early {
  __device__ void operator()(std::byte const*) const {}
};

/// Whether the frame has the page ready; fills in `seen` if so. Any thread calls. early(bytes) is
/// called for each ready frame, before its name is known. It may begin loads from the frame, and
/// gets any bytes. Like later loads they count only if this call gives true and still_there() holds
/// after them.
template <class Early = nothing_early>
__device__ __forceinline__ bool see_frame(handle::page_cache_ref const& c, std::uint32_t frame,
                                          std::uint64_t version, std::uint64_t page,
                                          seen_frame& seen, Early&& early = {}) {
  frame_header& h = c.headers[frame];
  // Acquire pairs with publish(): name, bytes and `valid` are of this generation, or of a later
  // one, which still_there() detects.
  // Assumption: relaxed suffices on the GPU. All later loads go to memory, and the branch delays
  // them until this load has returned. Tests: machine_order.py; array_test on a GPU.
#if defined(__CUDACC__)
  std::uint64_t const state = frame_state(h).load(memory_order_relaxed);
#else
  std::uint64_t const state = frame_state(h).load(memory_order_acquire);
#endif
  if (phase_of(state) != phase::ready) return false;
  early(static_cast<std::byte const*>(frame_bytes(c, frame)));
  std::uint32_t const valid = valid_bytes(h);
  if (!names(h, version, page)) return false;
  if (marks_hits(c.policy))
    atomic_ref<std::uint32_t, scope::device>(h.referenced).store(1, memory_order_relaxed);
  seen = {&h, state, frame_bytes(c, frame), valid};
  return true;
}

/// The first entry in ways [First, First + Count) from the page's home on that may be the page's.
/// 0: none. All loads are under way at once.
template <unsigned First, unsigned Count>
__device__ __forceinline__ std::uint64_t entry_in_ways(handle::page_cache_ref const& c,
                                                       page_location const& at) {
  std::uint64_t entry[Count];
  GPUFS_UNROLL
  for (unsigned i = 0; i < Count; ++i)
    entry[i] = bucket_entry(c, at.bucket, (at.home() + First + i) % bucket_ways)
                   .load(memory_order_relaxed);
  std::uint64_t found = 0;
  GPUFS_UNROLL
  for (unsigned i = 0; i < Count; ++i) {
    if (found == 0 && at.may_be(entry[i])) found = entry[i];
  }
  return found;
}

/// Ways from a page's home on that see_page() looks at. see_page_further() looks at the rest.
inline constexpr unsigned near_ways = 4;

/// Looks for a ready page in the first ways from its home, where nearly all pages are. Any single
/// thread calls. Pins nothing and never waits. Returns whether it was seen. Loads from it count
/// only if still_there() holds after them. `early` is that of see_frame().
///
/// Of several entries that may be the page's, it looks at one. One bucket in a hundred million has
/// two pages with one tag. Then one of them may be cached and not seen.
template <class Early = nothing_early>
__device__ __forceinline__ bool see_page(handle::page_cache_ref const& c, std::uint64_t version,
                                         std::uint64_t page, seen_frame& seen, Early&& early = {}) {
  page_location const at = locate(c, version, page);
  std::uint64_t entry = entry_in_ways<0, 1>(c, at);
  if (entry == 0) {
    entry = entry_in_ways<1, near_ways - 1>(c, at);
    if (entry == 0) return false;
  }
  return see_frame(c, static_cast<std::uint32_t>(entry) - 1, version, page, seen, early);
}

/// The same in all other ways, which hold one page in a hundred. header is nullptr if it was not
/// seen.
GPUFS_LIBRARY_STAGE seen_frame see_page_further(handle::page_cache_ref const* c,
                                                std::uint64_t version, std::uint64_t page) {
  constexpr unsigned first = near_ways, half = (bucket_ways - first) / 2;
  static_assert(first + 2 * half == bucket_ways);
  page_location const at = locate(*c, version, page);
  std::uint64_t entry = entry_in_ways<first, half>(*c, at);
  if (entry == 0) entry = entry_in_ways<first + half, half>(*c, at);
  seen_frame seen;
  if (entry == 0 || !see_frame(*c, static_cast<std::uint32_t>(entry) - 1, version, page, seen))
    return {};
  return seen;
}

/// Whether the frame has held the same page since it was seen in `state`. Loads since then got
/// bytes of that page. Any thread calls. `mark` is that of the last load; the values of all others
/// are in use already.
///
/// Why this is enough. The next owner stores to the frame only after its claim(). Its begin_fill()
/// changes the generation before publish() makes the frame ready. So a load that met one of its
/// stores comes after that claim. A later look at the state sees the claim, or a later generation.
/// On the GPU the look is issued when the load has returned; machine_order.py checks the machine
/// code (docs/memory-model.md). On other devices it is a read-modify-write with release. The claim
/// reads from it, so the owner's stores come after the loads.
__device__ __forceinline__ bool still_there(frame_header* seen, std::uint64_t state,
                                            std::uint32_t mark) {
  return (load_behind(seen->state, mark) ^ state) >> phase_shift == 0;
}

}  // namespace gpufs::cache
