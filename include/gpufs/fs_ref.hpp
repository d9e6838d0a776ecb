// The handle of a filesystem that kernels take by value.
#pragma once

#include <gpufs/handle/ahead_ref.hpp>
#include <gpufs/handle/block_files_ref.hpp>
#include <gpufs/handle/channels_ref.hpp>
#include <gpufs/handle/file_counters_ref.hpp>
#include <gpufs/handle/link_ref.hpp>
#include <gpufs/handle/page_cache_ref.hpp>
#include <gpufs/handle/pins_ref.hpp>
#include <gpufs/handle/prefetch_ref.hpp>
#include <gpufs/handle/seats_ref.hpp>
#include <gpufs/handle/window_table_ref.hpp>
#include <gpufs/handle/write_ref.hpp>

#include <cstdint>
#include <type_traits>

namespace gpufs::file {
struct record_share;
}

namespace gpufs {

/// What a kernel needs of a filesystem: pointers and sizes, nothing owned. Opaque to users.
///
/// Trivially copyable. Valid while the gpufs::filesystem lives.
struct fs_ref {
  fs_ref const* self = nullptr;      ///< this handle in GPU memory; in a block's copy, the copy
  handle::link_ref link;             ///< to the daemon: control words
  handle::channels_ref channels;     ///< to the daemon: requests, staging, answers
  handle::page_cache_ref cache;      ///< page table and frames
  handle::pins_ref pins;             ///< what is pinned, and who waits for frames
  handle::seats_ref seats;           ///< places of contexts
  handle::prefetch_ref prefetch;     ///< readahead of contexts
  handle::write_ref writes;          ///< buffers of dirty pages
  handle::window_table_ref windows;  ///< registered file windows
  handle::block_files_ref blocks;    ///< files that kernels read by NVMe commands
  file::record_share* records = nullptr;  ///< see gpufs/file/file_record.hpp
  /// grows when a file that was open gets another version; see file::is_outdated()
  std::uint32_t* file_changes = nullptr;
  std::uint64_t* told_changes = nullptr;    ///< see file::tell_changes()
  std::uint64_t* counters = nullptr;        ///< see gpufs/handle/counters.hpp
  handle::file_counters_ref file_counters;  ///< of each descriptor
  handle::ahead_ref ahead;                  ///< pages that array::prefetch() has requested
};
static_assert(std::is_trivially_copyable_v<fs_ref>);

}  // namespace gpufs
