// Elements of a typed view of a file: the parts of one that lie in different pages, and how a thread loads one.
#pragma once

#include <gpufs/io/lane_access.hpp>

#include <cerrno>
#include <cstdint>
#include <cstring>

namespace gpufs::detail {

/// Calls part(page, byte in it, bytes of the element before it, bytes) for each page that the `bytes` bytes of a file from `at` on lie in, until
/// it returns an error, which is returned.
template <class Part>
__device__ __forceinline__ std::int32_t for_each_part(lane_file const& f, std::uint64_t at, std::uint32_t bytes, Part&& part) {
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

/// Loads the element at byte `at`. `beyond_end`: what the file does not have are zeros; else that is -EIO. Returns 0, or an error: then `value`
/// may have parts of it.
template <class T>
__device__ __forceinline__ std::int32_t load_element(lane_file& f, std::uint64_t at, bool beyond_end, T& value) {
  std::int32_t const failed =
      for_each_part(f, at, sizeof(T), [&](std::uint64_t page, std::uint32_t begin, std::uint32_t done, std::uint32_t count) {
        std::int32_t error = 0;
        auto const use = [&](std::byte const* from) {
          if (count == sizeof(T)) {
            std::memcpy(&value, __builtin_assume_aligned(from, alignof(T)), sizeof(T));
          } else {
            std::memcpy(reinterpret_cast<std::byte*>(&value) + done, from, count);
          }
        };
        std::int32_t const missed = visit_pages(f, page, page_reader<decltype(use)>{f.cache, begin, count, use, error});
        return missed != 0 ? missed : error;
      });
  return failed == 0 && !beyond_end && ends_before(f, at + sizeof(T)) ? -EIO : failed;
}

}  // namespace gpufs::detail
