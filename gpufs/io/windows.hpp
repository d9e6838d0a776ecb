// Pages whose bytes kernels can read in the OS page cache by themselves: where a window of the file
// is mapped for the device.
#pragma once

#include <gpufs/device.hpp>
#include <gpufs/fs_ref.hpp>
#include <gpufs/warp.hpp>

#include <cstddef>
#include <cstdint>

namespace gpufs::detail {

/// The address of bytes [begin, begin + length) of file version `uid`, which lie within one window,
/// or 0: no window has them. Any thread calls. Nothing needs to be held: the host takes a window
/// out of the table first, and what is mapped goes when no kernel runs that may have found it
/// there.
GPUFS_STAGE inline std::uint64_t window_address(fs_ref const* handle, std::uint64_t uid,
                                                std::uint64_t begin, std::uint64_t length) {
  window_table_ref const& table = handle->windows;
  std::uint64_t const window = begin >> table.shift;
  std::uint64_t const from = begin & ((std::uint64_t(1) << table.shift) - 1);
  std::uint64_t const home = rpc::window_home(uid, window);
  auto const load = [](std::uint64_t& word, memory_order order) {
    return atomic_ref<std::uint64_t, scope::system>(word).load(order);
  };
  std::uint64_t uids[rpc::window_probes];  // all loads are under way before the first is looked at
  std::uint64_t windows[rpc::window_probes];
  GPUFS_UNROLL
  for (unsigned i = 0; i < rpc::window_probes; ++i) {
    rpc::window_entry& e = table.entries[(home + i) & table.mask];
    uids[i] = load(e.uid, memory_order_relaxed);
    windows[i] = load(e.window, memory_order_relaxed);
  }
  GPUFS_UNROLL
  for (unsigned i = 0; i < rpc::window_probes; ++i) {
    if (uids[i] != uid || windows[i] != window) continue;
    rpc::window_entry& e = table.entries[(home + i) & table.mask];
    // Pair with the host's stores in window_mapper::publish(), each of which is seen after the one
    // before: with the same tag before and after, the fields between belong to it, and the window's
    // bytes are there.
    std::uint64_t const tag = load(e.tag, memory_order_acquire);
    std::uint64_t const seen_uid = load(e.uid, memory_order_acquire);
    std::uint64_t const seen_window = load(e.window, memory_order_acquire);
    std::uint64_t const address = load(e.address, memory_order_acquire);
    std::uint64_t const bytes = load(e.bytes, memory_order_acquire);
    if (tag == 0 || load(e.tag, memory_order_acquire) != tag) continue;
    if (seen_uid == uid && seen_window == window && from + length <= bytes) return address + from;
  }
  return 0;
}

}  // namespace gpufs::detail
