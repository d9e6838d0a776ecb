// Format of write buffers, which carry written bytes from the device to the file.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gpufs::rpc {

// A dirty page has a write buffer: pinned memory with the page's written bytes, and a list of their
// ranges. The device fills it; the host writes it to the file. Neither side waits for the other. So
// the host can write back while a kernel runs, after it has ended, and after a failure that took
// the GPU's memory.
//
// Two words per buffer, each with one writing side:
//   posted  (device)  sequence << 2 | urgent << 1 | busy
//   written (host)    sequence << 1 | locked
// The device raises the sequence in `posted` with every gwrite that it added. `written` has the
// sequence that the file has. Equal sequences mean a clean buffer, and the device may use it for
// another page.
//
// While they differ, the device adds bytes only as `busy`, and the host reads only as `locked`. The
// device stores busy, then loads `written`. The host stores locked, then loads `posted`. All four
// are sequentially consistent. So at least one side sees the other and draws back. One exception:
// once no kernel can add bytes, the host may lock a buffer that a failed kernel left busy.

inline constexpr std::uint64_t posted_busy = 1;  ///< the device is adding bytes
/// a caller waits until this buffer is clean
inline constexpr std::uint64_t posted_urgent = 2;
inline constexpr unsigned posted_shift = 2;
inline constexpr std::uint64_t written_locked = 1;  ///< the host is reading
inline constexpr unsigned written_shift = 1;

// A dirty mark, a byte per buffer, says which buffers the host need look at. 0: the buffer is
// clean. Else it may be dirty, and the mark is a tag of its version's series. The device stores the
// tag when it opens a clean buffer, before it posts. The host stores 0 when the file has the
// buffer's bytes, before it stores `written`. So the two take turns, each after it has acquired the
// other's word, and a posted buffer that the file lacks has its mark. docs/design/write.md has the
// argument.

/// Versions come in series of 2^20 numbers. All versions of a series are of one file, so the host
/// finds the file of a write buffer by the series, however often the file was renewed.
inline constexpr unsigned series_shift = 20;
constexpr std::uint64_t series_of(std::uint64_t version) { return version >> series_shift; }

/// The mark of a buffer with a page of this version: never 0.
constexpr std::uint8_t mark_of(std::uint64_t version) {
  return static_cast<std::uint8_t>(1 + series_of(version) % 255);
}

/// Bytes [begin, end) of a page.
struct byte_range {
  std::uint32_t begin;
  std::uint32_t end;
};

/// A page with more separate ranges is written back before it takes another.
inline constexpr unsigned most_ranges = 60;

/// The page of a write buffer and its written ranges. `version` and `page` are accessed atomically:
/// the host reads them before it locks the buffer.
struct alignas(64) buffer_header {
  std::uint64_t version;
  std::uint64_t page;
  std::uint32_t ranges;  ///< number of ranges; they are disjoint, do not touch, and have no order
  std::uint32_t reserved[3];
  byte_range range[most_ranges];
};
static_assert(sizeof(buffer_header) == 512);

/// The words of the marks of `count` buffers: whole cache lines.
constexpr std::uint64_t mark_words(std::uint64_t count) { return (count + 63) / 64 * 8; }

/// The write buffers of a filesystem, in pinned memory. count == 0: files cannot be written.
struct write_region {
  buffer_header* headers = nullptr;  ///< `count` entries; the device writes
  std::uint64_t* posted = nullptr;   ///< `count` entries; the device writes
  std::uint64_t* written = nullptr;  ///< `count` entries; the host writes
  std::uint64_t* marks = nullptr;    ///< mark_words(count) words of marks; both sides write
  std::byte* bytes = nullptr;        ///< `count` << page_shift
  /// indexed by open_file_record::write_index - 1: the errno that gfsync has not reported yet, or
  /// 0; the host writes
  std::uint64_t* errors = nullptr;
  std::uint64_t count = 0;
  std::uint32_t page_shift = 0;
};

}  // namespace gpufs::rpc
