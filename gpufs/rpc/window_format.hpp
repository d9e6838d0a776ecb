// The table of file windows: written by the host, looked at by device code, which then needs no
// request for the bytes.
#pragma once

#include <gpufs/host_device.hpp>

#include <cstdint>

namespace gpufs::rpc {

/// One window: bytes [window * window_size, + bytes) of file version `uid` can be read by the
/// device at `address`. In GPU memory; every word is accessed atomically. The host has the only
/// writer. It stores the fields of an entry whose tag is 0, then a tag that no entry ever had
/// before; it takes an entry back by storing tag 0. So who finds the same tag before and after has
/// read fields that belong together.
struct alignas(64) window_entry {
  std::uint64_t tag;  ///< 0: the entry is empty
  std::uint64_t uid;
  std::uint64_t window;
  std::uint64_t address;
  std::uint64_t bytes;
  std::uint64_t reserved[3];
};
static_assert(sizeof(window_entry) == 64);

/// A window is in one of this many entries, from its home on.
inline constexpr unsigned window_probes = 4;

/// Where a window's entries begin (modulo the table's size). Those of one file lie side by side, so
/// that they do not compete.
GPUFS_HOST_DEVICE inline std::uint64_t window_home(std::uint64_t uid, std::uint64_t window) {
  return (uid * 0x9e3779b97f4a7c15ull >> 24) + window;
}

}  // namespace gpufs::rpc
