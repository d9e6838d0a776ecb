// Write buffers: pinned memory through which written bytes travel to the file. What device and host
// daemon agree on about them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gpufs::rpc {

// A dirty page has a write buffer: the page's written bytes lie in pinned memory, and a list says
// which bytes those are. The device fills it, the host writes it to the file; neither needs the
// other to be awake. So the host can write everything back while a kernel runs, after it has ended,
// and after a failure that took the GPU's own memory.
//
// Two words per buffer, each with one writing side:
//   posted  (device)  sequence << 2 | urgent << 1 | busy
//   written (host)    sequence << 1 | held
// The sequence in `posted` grows with every gwrite that was added; `written` says up to which one
// the file has them. They are equal: the buffer is clean, and the device may use it for another
// page. While they differ, the device adds bytes only as `busy` and the host reads only as `held`,
// each after having seen that the other is not: the device stores busy, then loads `written`; the
// host stores held, then loads `posted`; all four sequentially consistent, so that at least one of
// them sees the other and draws back.

inline constexpr std::uint64_t posted_busy = 1;  ///< the device is adding bytes
inline constexpr std::uint64_t posted_urgent =
    2;  ///< somebody waits for this buffer to become clean
inline constexpr unsigned posted_shift = 2;
inline constexpr std::uint64_t written_held = 1;  ///< the host is reading
inline constexpr unsigned written_shift = 1;

/// Bytes [begin, end) of a page.
struct byte_range {
  std::uint32_t begin;
  std::uint32_t end;
};

/// A page with more separate ranges is written back first.
inline constexpr unsigned most_ranges = 60;

/// Names the page and its written bytes. `uid` and `page` are accessed atomically: the host looks
/// at them before it holds the buffer.
struct alignas(64) buffer_header {
  std::uint64_t uid;
  std::uint64_t page;
  std::uint32_t ranges;  ///< how many; disjoint, not touching each other, in no order
  std::uint32_t reserved[3];
  byte_range range[most_ranges];
};
static_assert(sizeof(buffer_header) == 512);

/// The write buffers of a filesystem, in pinned memory; count == 0: files cannot be written.
struct write_region {
  buffer_header* headers = nullptr;  ///< `count` entries; the device writes
  std::uint64_t* posted = nullptr;   ///< `count` entries; the device writes
  std::uint64_t* written = nullptr;  ///< `count` entries; the host writes
  std::byte* bytes = nullptr;        ///< `count` << page_shift
  std::uint64_t* errors = nullptr;  ///< by place of a file (open_file_record::place - 1): the errno
                                    ///< that gfsync has not reported yet, or 0; the host writes
  std::uint64_t count = 0;
  std::uint32_t page_shift = 0;
};

}  // namespace gpufs::rpc
