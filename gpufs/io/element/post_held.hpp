// Posts bytes that a lane has stored to a page which it holds.
#pragma once

#include <gpufs/io/element/element.hpp>
#include <gpufs/io/element/lane_access.hpp>

#include <cstddef>
#include <cstdint>

namespace gpufs::io {

using namespace base;

/// Copies `count` bytes from a frame. `to` and `from` have the same place in a page. One thread
/// calls. The loads answer from memory: other threads may have stored to the bytes, too, and then
/// the copy is what the frame has.
__device__ __forceinline__ void copy_from_frame(std::byte* to, std::byte const* from,
                                                std::uint32_t count) {
  auto const load = [&](std::uint32_t b) {
    return static_cast<std::byte>(__ldcv(reinterpret_cast<unsigned char const*>(from) + b));
  };
  std::uint32_t b = 0;
  for (; b < count && reinterpret_cast<std::uintptr_t>(from + b) % 16 != 0; ++b) to[b] = load(b);
  for (; b + 16 <= count; b += 16)
    *reinterpret_cast<uint4*>(to + b) = __ldcv(reinterpret_cast<uint4 const*>(from + b));
  for (; b < count; ++b) to[b] = load(b);
}

/// Bytes [begin, begin + count) of a page, which the calling lane has stored to a frame that it has
/// pinned; `bytes` are those in the frame.
struct stored_bytes {
  std::byte const* bytes;
  std::uint64_t page;
  std::uint32_t begin;
  std::uint32_t count;
};

/// Posts the stored bytes, as if the lane stored them now. Any thread calls, and keeps its pin.
/// Lanes that come together, with as many bytes each that lie one behind the other, share one post.
///
/// While the file has the version that the frame is of, the look-up finds this frame: it is pinned,
/// so it stays in the table. Then only the write buffer lacks the bytes, and no frame is needed. In
/// a newer version the page has another frame, which gets them, too. The lane waits for that frame
/// while it pins the old one, within the deadline.
GPUFS_LIBRARY_STAGE element_access post_held(fs_ref const* __restrict__ handle,
                                             file::used_file const file, std::int32_t seat,
                                             stored_bytes const s, through_bytes const through) {
  lane_file f(handle, file, seat, through);
  std::int32_t error = 0;
  auto const fill = [&](std::byte* to) {
    // A store of the bytes to their own place could undo a store of another thread.
    if (to != s.bytes) copy_from_frame(to, s.bytes, s.count);
  };
  std::int32_t const missed =
      visit_pages(f, s.page, page_writer<decltype(fill)>{f, s.page, s.begin, s.count, fill, error});
  return {missed != 0 ? missed : error, f.file};
}

}  // namespace gpufs::io
