// Elements of a typed view of a file: the parts of one that lie in different pages, and how a
// thread loads one.
#pragma once

#include <gpufs/cache/peek.hpp>
#include <gpufs/io/lane_access.hpp>

#include <cerrno>
#include <cstdint>
#include <cstring>

namespace gpufs::detail {

/// Calls part(page, byte in it, bytes of the element before it, bytes) for each page that the
/// `bytes` bytes of a file from `at` on lie in, until it returns an error, which is returned.
template <class Part>
__device__ __forceinline__ std::int32_t for_each_part(lane_file const& f, std::uint64_t at,
                                                      std::uint32_t bytes, Part&& part) {
  std::int32_t error = 0;
  for (std::uint32_t done = 0; done < bytes && error == 0;) {
    std::uint64_t const page = (at + done) >> f.cache.page_shift;
    auto const begin = static_cast<std::uint32_t>((at + done) & (f.page_bytes() - 1));
    std::uint64_t const room = f.page_bytes() - begin;
    auto const count = room < bytes - done ? static_cast<std::uint32_t>(room) : bytes - done;
    error = part(page, begin, done, count);
    done += count;
  }
  return error;
}

/// What became of an element's access, and what is known of the file now.
struct element_access {
  std::int32_t error;
  used_file file;
};
template <class T>
struct loaded_element : element_access {
  T value;  ///< T{} if there is an error
};

/// Loads the element at byte `at`, from pages that the lanes that come here together pin together,
/// having brought in those that are not there. `beyond_end`: what the file does not have are zeros;
/// else that is -EIO.
template <class T>
GPUFS_STAGE loaded_element<T> load_element(fs_ref const* handle, used_file const file,
                                           std::int32_t slot, std::uint64_t at, bool beyond_end) {
  lane_file f(handle, file, slot);
  T value{};
  std::int32_t const failed = for_each_part(
      f, at, sizeof(T),
      [&](std::uint64_t page, std::uint32_t begin, std::uint32_t done, std::uint32_t count) {
        std::int32_t error = 0;
        auto const use = [&](std::byte const* from) {
          if (count == sizeof(T)) {
            std::memcpy(&value, __builtin_assume_aligned(from, alignof(T)), sizeof(T));
          } else {
            std::memcpy(reinterpret_cast<std::byte*>(&value) + done, from, count);
          }
        };
        std::int32_t const missed =
            visit_pages(f, page, page_reader<decltype(use)>{f.cache, begin, count, use, error});
        return missed != 0 ? missed : error;
      });
  std::int32_t const error =
      failed == 0 && !beyond_end && ends_before(f, at + sizeof(T)) ? -EIO : failed;
  return {{error, f.file}, error == 0 ? value : T{}};
}

/// Stores the element at byte `at`, as load_element() loads. The stores of lanes that come here
/// together and whose elements lie one behind the other are one write.
template <class T>
GPUFS_STAGE element_access store_element(fs_ref const* handle, used_file const file,
                                         std::int32_t slot, std::uint64_t at, T const value) {
  lane_file f(handle, file, slot);
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

/// A page that the calling lane has pinned, unless there was an error.
struct kept_page : element_access {
  std::uint32_t frame;
  std::uint64_t valid;
};

/// Pins the page for each lane, for release_pins() to give back. Its first `valid` bytes may be
/// loaded. `beyond_end` as for load_element().
GPUFS_STAGE inline kept_page keep_page(fs_ref const* handle, used_file const file,
                                       std::int32_t slot, std::uint64_t page, bool beyond_end) {
  lane_file f(handle, file, slot);
  kept_page kept{};
  kept.error = visit_pages(f, page, page_keeper{f.cache, kept.frame, kept.valid});
  std::uint64_t const page_begin = page << f.cache.page_shift;
  if (kept.error == 0 && !beyond_end && ends_before(f, page_begin + kept.valid))
    kept.valid = f.file.size > page_begin ? f.file.size - page_begin : 0;
  kept.file = f.file;
  return kept;
}

/// Elements of a page: `count` of them from number `first` on, of a view of a file that begins at
/// byte `begin`. The page has `valid` bytes.
struct page_elements {
  std::uint64_t first = 0;
  std::uint64_t count = 0;
  std::int64_t offset = 0;  ///< of element `first` in the page
};
template <class T>
__device__ __forceinline__ page_elements elements_of(std::uint64_t begin, std::uint64_t size,
                                                     std::uint64_t page_begin,
                                                     std::uint64_t valid) {
  std::uint64_t const first =
      page_begin > begin ? (page_begin - begin + sizeof(T) - 1) / sizeof(T) : 0;
  std::uint64_t const end = page_begin + valid;
  std::uint64_t const behind = end > begin ? (end - begin) / sizeof(T) : 0;
  std::uint64_t const last = behind < size ? behind : size;
  return {first, last > first ? last - first : 0,
          static_cast<std::int64_t>(begin + first * sizeof(T) - page_begin)};
}

/// Looks where element i's page is in the cache, as see_page(), and which elements of the view lie
/// there. False, too, if there is no such element, or if the file is written: it may have another
/// version with each access, and is asked for its pages. `further(cache, uid, page)` calls
/// see_page_further(): by far_call() from a kernel, directly in what a kernel far_call()s.
template <class T, class Further>
__device__ __forceinline__ bool see_elements(fs_ref const& fs, used_file const& file,
                                             std::uint64_t begin, std::uint64_t size,
                                             std::uint64_t i, seen_frame& seen, page_elements& here,
                                             Further&& further) {
  if (i >= size || file.place != 0) return false;
  std::uint64_t const page = (begin + i * sizeof(T)) >> fs.cache.page_shift;
  if (!see_page(fs.cache, file.uid, page, seen)) {
    seen = further(&fs.cache, file.uid, page);
    if (seen.header == nullptr) return false;
  }
  here = elements_of<T>(begin, size, page << fs.cache.page_shift, seen.valid);
  return true;
}

}  // namespace gpufs::detail
