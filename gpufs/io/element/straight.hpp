// Loads of single elements straight out of file windows, without their page, and the filter that
// decides which pages are brought in instead.
#pragma once

#include <gpufs/base/mix64.hpp>
#include <gpufs/base/warp.hpp>
#include <gpufs/cache/peek.hpp>
#include <gpufs/device.hpp>
#include <gpufs/file/file_record.hpp>
#include <gpufs/fs_ref.hpp>
#include <gpufs/handle/counters.hpp>
#include <gpufs/source/window.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace gpufs::io {

using namespace base;

/// Longest element that is loaded straight: the bytes of one sector, the least that crosses the
/// bus.
inline constexpr std::uint64_t most_straight_bytes = 32;

/// So many lanes that come together for elements of one page bring the page in at once. They are
/// likely to stream through it.
inline constexpr unsigned dense_lanes = 4;

/// A word of the filter is the upper bits of a page's key, then the count of the page's loads.
inline constexpr unsigned element_count_bits = 12;

/// Names a page of a file version. Pages with equal keys would share their count, no more.
__device__ __forceinline__ std::uint64_t page_key(std::uint64_t version, std::uint64_t page) {
  return mix64(page + mix64(version));
}

/// Counts a load of an element of the page. Returns whether the page is to be brought in now: it
/// was loaded from `loads` times before, and soon enough. Any thread calls.
///
/// A word counts for one page at a time. Loads of other pages that share it count it down, and the
/// page that finds it at the end takes it over. So a page comes in if it has most of the loads
/// among those that share its word. There is a word for every second frame. Random loads over many
/// more pages than that bring in few.
///
/// All orders are relaxed, and a store may undo other threads' counts. The counts decide how an
/// element is loaded, never what is loaded, so it does no harm that some are lost. No count reaches
/// the bits of the key unless thousands of lanes count between an add and the store behind it. Then
/// the page has to start over.
__device__ __forceinline__ bool wants_page(handle::window_table_ref const& table, std::uint64_t key,
                                           std::uint32_t loads) {
  constexpr std::uint32_t counts = (1u << element_count_bits) - 1;
  std::uint64_t const index =
      std::uint64_t(static_cast<std::uint32_t>(key)) * table.element_count_words >> 32;
  atomic_ref<std::uint32_t, scope::device> const word(table.element_counts[index]);
  std::uint32_t const name = static_cast<std::uint32_t>(key >> 32) & ~counts;
  std::uint32_t const was = word.fetch_add(1, memory_order_relaxed);
  std::uint32_t const count = was & counts;
  if ((was & ~counts) != name) {
    word.store(count <= 1 ? name | 1 : was - 1, memory_order_relaxed);
    return false;
  }
  if (count < loads) return false;
  word.store(name, memory_order_relaxed);
  return true;
}

/// Where an element comes from.
/// window   straight out of a file window
/// page     its page, which is to be brought in
/// nowhere  no window has it, and few lanes want its page
enum class element_way : std::uint32_t { window, page, nowhere };

struct straight_source {
  element_way way = element_way::page;
  std::byte const* bytes = nullptr;  ///< in the window
};

/// Finds the `length` bytes at byte `at` of a file version. Any thread calls. Never waits.
GPUFS_LIBRARY_STAGE straight_source find_straight(fs_ref const* __restrict__ handle,
                                                  std::uint64_t version, std::uint64_t at,
                                                  std::uint32_t length) {
  fs_ref const& fs = *handle;
  // Lanes for elements of other lengths, or of another filesystem, are not counted for a page. If
  // two sums are equal by chance, a page is brought in that few lanes want.
  std::uint64_t const key = page_key(version, at >> fs.cache.page_shift);
  unsigned const of_page = __match_any_sync(
      converged().mask(), key + mix64(reinterpret_cast<std::uintptr_t>(handle) + length));
  std::uint64_t address = 0;
  auto way = element_way::page;
  if (count_lanes(of_page) < dense_lanes) {
    address = source::window_address(handle, version, at, length);
    if (address == 0)
      way = element_way::nowhere;
    else if (!wants_page(fs.windows, key, fs.windows.straight_loads))
      way = element_way::window;
  }
  if (way == element_way::window) {
    // One lane counts for those that are here. No lane waits for another (lane_gate.hpp).
    converged_group const here = converged();
    if (here.thread_rank() == 0) {
      handle::add(fs, handle::counter::elements_straight, here.size());
      handle::add(fs, handle::counter::bytes_registered, here.size() * length);
    }
  }
  return {way, reinterpret_cast<std::byte const*>(address)};
}

template <std::size_t Alignment>
using straight_unit = std::conditional_t<Alignment % 16 == 0, uint4, cache::unit_of<Alignment>>;

/// Loads an element from a file window. The loads are under way together. ld.cv never answers from
/// a line cached earlier: others may write to the file. Any thread calls.
template <class T>
__device__ __forceinline__ T load_from_window(std::byte const* from) {
  using unit = straight_unit<alignof(T)>;
  constexpr unsigned units = sizeof(T) / sizeof(unit);
  unit part[units];
  auto const* const at = reinterpret_cast<unit const*>(from);
  GPUFS_UNROLL
  for (unsigned i = 0; i < units; ++i) part[i] = __ldcv(at + i);
  T value;
  std::memcpy(&value, part, sizeof(T));
  return value;
}

/// Whether the `bytes` bytes at byte `at` of the file may be loaded without their page. They may
/// not if the file is written, or may have another version by now, or ends before them, or if they
/// cross the end of a page. Any thread calls.
__device__ __forceinline__ bool may_go_without_page(fs_ref const& fs, file::used_file const& file,
                                                    std::uint64_t at, std::uint64_t bytes) {
  // Elements that cross the end of a page come here even if both pages are in the cache.
  return fs.windows.entries != nullptr && file.write_index == 0 && at + bytes <= file.size &&
         (at ^ (at + bytes - 1)) >> fs.cache.page_shift == 0 && !file::is_outdated(fs, file);
}

/// Loads the element at byte `at` of the file straight out of a file window. It may go without its
/// page. Any thread calls. Never waits. Loads nothing if the way is another one.
///
/// Why the bytes are right. They are those that a page brought in now would get: of the same
/// window, found under the same version, behind the same look for a newer one (has_new_version()).
/// No window is found under a version in which the file is written here. A file that is opened for
/// writing gets another version, and is_outdated() shows that before the first gwrite begins
/// (file::load_shared()). The window stays mapped, since the kernel runs
/// (source::window_address()).
template <class T>
__device__ __forceinline__ element_way load_straight(fs_ref const& fs, file::used_file const& file,
                                                     std::uint64_t at, T& value) {
  static_assert(sizeof(T) <= most_straight_bytes);
  straight_source const from = find_straight(&fs, file.version, at, sizeof(T));
  if (from.way == element_way::window) value = load_from_window<T>(from.bytes);
  return from.way;
}

}  // namespace gpufs::io
