// Elements of a typed view of a file: loads, stores, pins, and the elements of a page.
#pragma once

#include <gpufs/cache/peek.hpp>
#include <gpufs/io/element/lane_access.hpp>

#include <cerrno>
#include <cstdint>
#include <cstring>

namespace gpufs::io {

/// Calls part(page, byte in the page, bytes of the element done before, bytes) for each page of the
/// range [at, at + bytes). Stops at the first error and returns it, else 0. Any thread calls.
template <class Part>
__device__ __forceinline__ std::int32_t for_each_part(lane_file const& f, std::uint64_t at,
                                                      std::uint32_t bytes, Part&& part) {
  std::int32_t error = 0;
  // Rolled, so that lanes which pass the gate together are at the same instructions.
  GPUFS_ROLLED
  for (std::uint32_t done = 0; done < bytes && error == 0;) {
    std::uint64_t const page = (at + done) >> f.cache.page_shift;
    auto const begin = static_cast<std::uint32_t>((at + done) & (f.page_bytes() - 1));
    std::uint64_t const room = f.page_bytes() - begin;
    auto const count = static_cast<std::uint32_t>(base::least<std::uint64_t>(room, bytes - done));
    error = part(page, begin, done, count);
    done += count;
  }
  return error;
}

/// The outcome of an access to an element, and the file as it is known now.
struct element_access {
  std::int32_t error;
  file::used_file file;
};
template <class T>
struct loaded_element : element_access {
  T value;  ///< T{} if there is an error
};

/// Loads the element at byte `at` of the file. Any thread calls. Lanes that come together pin pages
/// together and bring the missing ones in. With `beyond_end`, bytes that the file lacks read as
/// zeros. Without it they give -EIO.
template <class T>
GPUFS_STAGE loaded_element<T> load_element(fs_ref const* __restrict__ handle,
                                           file::used_file const file, std::int32_t seat,
                                           std::uint64_t at, bool beyond_end) {
  lane_file f(handle, file, seat);
  T value{};
  auto const load_part = [&](std::uint64_t page, std::uint32_t begin, std::uint32_t done,
                             std::uint32_t count) {
    std::int32_t error = 0;
    auto const use = [&](std::byte const* from) {
      if (count == sizeof(T)) {
        std::memcpy(&value, __builtin_assume_aligned(from, alignof(T)), sizeof(T));
      } else {
        std::memcpy(reinterpret_cast<std::byte*>(&value) + done, from, count);
      }
      base::await_loads(cache::mark_of_object(value));  // unpin_read() follows
    };
    std::int32_t const missed =
        visit_pages(f, page, page_reader<decltype(use)>{f.cache, begin, count, use, error});
    return missed != 0 ? missed : error;
  };
  std::int32_t error = 0;
  auto end = file_end::behind;
  do {
    error = for_each_part(f, at, sizeof(T), load_part);
    if (error == 0 && !beyond_end) end = ends(f, at + sizeof(T));
  } while (error == 0 && end == file_end::unknown);
  if (error == 0 && end == file_end::before) error = -EIO;
  return {{error, f.file}, error == 0 ? value : T{}};
}

/// Stores the element at byte `at` of the file. Any thread calls. If lanes come together and their
/// elements lie one behind the other, their stores are one write. Pages of `through` are written
/// through.
template <class T>
GPUFS_STAGE element_access store_element(fs_ref const* __restrict__ handle,
                                         file::used_file const file, std::int32_t seat,
                                         std::uint64_t at, T const value,
                                         through_bytes const through) {
  lane_file f(handle, file, seat, through);
  std::int32_t const failed = for_each_part(
      f, at, sizeof(T),
      [&](std::uint64_t page, std::uint32_t begin, std::uint32_t done, std::uint32_t count) {
        std::int32_t error = 0;
        auto const fill = [&](std::byte* to) {
          if (count == sizeof(T)) {
            std::memcpy(__builtin_assume_aligned(to, alignof(T)), &value, sizeof(T));
          } else {
            std::memcpy(to, reinterpret_cast<std::byte const*>(&value) + done, count);
          }
        };
        std::int32_t const missed =
            visit_pages(f, page, page_writer<decltype(fill)>{f, page, begin, count, fill, error});
        return missed != 0 ? missed : error;
      });
  return {failed, f.file};
}

/// A page that the calling lane has pinned. With an error nothing is pinned.
struct held_page : element_access {
  std::uint32_t frame;
  std::uint64_t valid;
};

/// Pins the page once for each lane that comes; release_pin() gives the pins back. Any thread
/// calls. Loads may use the first `valid` bytes. `beyond_end` has the meaning of load_element().
GPUFS_LIBRARY_STAGE held_page hold_page(fs_ref const* __restrict__ handle,
                                        file::used_file const file, std::int32_t seat,
                                        std::uint64_t page, bool beyond_end) {
  lane_file f(handle, file, seat);
  held_page held{};
  std::uint64_t const page_begin = page << f.cache.page_shift;
  for (;;) {
    held.error = visit_pages(f, page, page_pinner{f.cache, held.frame, held.valid});
    if (held.error != 0 || beyond_end) break;
    auto const end = ends(f, page_begin + held.valid);
    if (end == file_end::before)
      held.valid = f.file.size > page_begin ? f.file.size - page_begin : 0;
    if (end != file_end::unknown) break;
    cache::unpin_read(f.cache.headers[held.frame]);
  }
  held.file = f.file;
  return held;
}

/// The elements of a view that lie completely in one page.
struct page_elements {
  std::uint64_t first = 0;
  std::uint64_t count = 0;
  std::int64_t offset = 0;  ///< of element `first` from the start of the page
};

/// The elements of a view in a page of `valid` bytes that begins at byte `page_begin` of the file.
/// The view begins at byte `begin` and has `size` elements. Any thread calls.
template <class T>
__device__ __forceinline__ page_elements elements_of(std::uint64_t begin, std::uint64_t size,
                                                     std::uint64_t page_begin,
                                                     std::uint64_t valid) {
  std::uint64_t const first =
      page_begin > begin ? (page_begin - begin + sizeof(T) - 1) / sizeof(T) : 0;
  std::uint64_t const end = page_begin + valid;
  std::uint64_t const behind = end > begin ? (end - begin) / sizeof(T) : 0;
  std::uint64_t const last = base::least(behind, size);
  return {first, last > first ? last - first : 0,
          static_cast<std::int64_t>(begin + first * sizeof(T) - page_begin)};
}

/// Looks for element i's page in the cache and finds the view's elements there. Any thread calls.
/// Returns false if the page is not seen (peek.hpp) or the view has no such element.
///
/// Returns false for a written file too: each access may find another version, so it must look up
/// the page. The same holds for a file that may be written by now. `here` lacks an element that
/// crosses the end of the page.
template <class T>
__device__ __forceinline__ bool see_elements(fs_ref const& fs, file::used_file const& file,
                                             std::uint64_t begin, std::uint64_t size,
                                             std::uint64_t i, cache::seen_frame& seen,
                                             page_elements& here) {
  if (i >= size || file.write_index != 0) return false;
  // Under way with the loads of the look-up, so that it costs no trip of its own.
  std::uint32_t const changes = file::file_changes(fs).load(memory_order_relaxed);
  std::uint64_t const page = (begin + i * sizeof(T)) >> fs.cache.page_shift;
  if (!cache::see_page(fs.cache, file.version, page, seen)) {
    seen = cache::see_page_further(&fs.cache, file.version, page);
    if (seen.header == nullptr) return false;
  }
  if (changes != file.changes) return false;
  here = elements_of<T>(begin, size, page << fs.cache.page_shift, seen.valid);
  return true;
}

}  // namespace gpufs::io
