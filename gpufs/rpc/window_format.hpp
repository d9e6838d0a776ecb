// Format of the table of file windows, which the host writes and device code reads.
#pragma once

#include <gpufs/base/host_device.hpp>

#include <cstdint>

namespace gpufs::rpc {

/// One file window. Kernels can read bytes [window * file_window_size, + bytes) of file version
/// `version` at `address`. Entries lie in GPU memory, and every word is accessed atomically.
///
/// Only the host writes. It stores the fields of an entry whose tag is 0, then a tag that no entry
/// had before. It stores tag 0 to withdraw the entry. A reader that finds the same tag before and
/// after has read fields that belong together.
struct alignas(64) window_entry {
  std::uint64_t tag;  ///< 0: the entry is empty
  std::uint64_t version;
  std::uint64_t window;
  std::uint64_t address;
  std::uint64_t bytes;
  std::uint64_t reserved[3];
};
static_assert(sizeof(window_entry) == 64);

/// The table's entries are followed by one whose tag is 0 until a window is published for the first
/// time. So kernels need not search an empty table.
inline constexpr std::uint32_t window_entries_more = 1;

/// A window's entry is one of this many, from its home on.
inline constexpr unsigned window_probes = 4;

/// Returns the window's home entry, modulo the table's size. Any thread calls. The windows of one
/// file lie side by side, so they do not compete.
GPUFS_HOST_DEVICE inline std::uint64_t window_home(std::uint64_t version, std::uint64_t window) {
  return (version * 0x9e3779b97f4a7c15ull >> 24) + window;
}

}  // namespace gpufs::rpc
