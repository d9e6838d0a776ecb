// The file window source: finds page bytes that kernels read directly in the OS page cache.
#pragma once

#include <gpufs/base/warp.hpp>
#include <gpufs/device.hpp>
#include <gpufs/fs_ref.hpp>

#include <cstddef>
#include <cstdint>

namespace gpufs::source {

using namespace base;

/// Loads a word that is 0 as long as no window has been published. Any thread calls.
__device__ __forceinline__ std::uint64_t load_any_windows(fs_ref const& fs) {
  handle::window_table_ref const& table = fs.windows;
  if (table.entries == nullptr) return 0;
  return atomic_ref<std::uint64_t, scope::system>(table.entries[std::uint64_t{table.mask} + 1].tag)
      .load(memory_order_relaxed);
}

/// Returns the address of bytes [begin, begin + length) of file version `version`, or 0 if no file
/// window has them. Any thread calls. The bytes lie within one window. The caller needs no pin: the
/// host first takes a window out of the table. It unmaps the window when no kernel runs that may
/// have found it.
GPUFS_LIBRARY_STAGE std::uint64_t window_address(fs_ref const* __restrict__ handle,
                                                 std::uint64_t version, std::uint64_t begin,
                                                 std::uint64_t length) {
  handle::window_table_ref const& table = handle->windows;
  std::uint64_t const window = begin >> table.shift;
  std::uint64_t const from = begin & ((std::uint64_t(1) << table.shift) - 1);
  std::uint64_t const home = rpc::window_home(version, window);
  auto const load = [](std::uint64_t& word, memory_order order) {
    return atomic_ref<std::uint64_t, scope::system>(word).load(order);
  };
  // all loads are under way before the first is used
  std::uint64_t versions[rpc::window_probes];
  std::uint64_t windows[rpc::window_probes];
  GPUFS_UNROLL
  for (unsigned i = 0; i < rpc::window_probes; ++i) {
    rpc::window_entry& e = table.entries[(home + i) & table.mask];
    versions[i] = load(e.version, memory_order_relaxed);
    windows[i] = load(e.window, memory_order_relaxed);
  }
  GPUFS_UNROLL
  for (unsigned i = 0; i < rpc::window_probes; ++i) {
    if (versions[i] != version || windows[i] != window) continue;
    rpc::window_entry& e = table.entries[(home + i) & table.mask];
    // Pairs with table_mapper::publish() and withdraw(), which store one word after the other. With
    // the same tag before and after, the fields between belong to it, and the window's bytes are
    // there.
    std::uint64_t const tag = load(e.tag, memory_order_acquire);
    std::uint64_t const seen_version = load(e.version, memory_order_acquire);
    std::uint64_t const seen_window = load(e.window, memory_order_acquire);
    std::uint64_t const address = load(e.address, memory_order_acquire);
    std::uint64_t const bytes = load(e.bytes, memory_order_acquire);
    if (tag == 0 || load(e.tag, memory_order_acquire) != tag) continue;
    if (seen_version == version && seen_window == window && from + length <= bytes)
      return address + from;
  }
  return 0;
}

}  // namespace gpufs::source
