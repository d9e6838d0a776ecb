// The handle of a filesystem that kernels take by value.
#pragma once

#include <gpufs/handle/channels_ref.hpp>
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
  fs_ref const* self = nullptr;  ///< this handle in GPU memory
  handle::link_ref link;
  handle::channels_ref channels;
  handle::page_cache_ref cache;
  handle::pins_ref pins;
  handle::seats_ref seats;
  handle::prefetch_ref prefetch;
  handle::write_ref writes;
  handle::window_table_ref windows;
  file::record_share* records = nullptr;  ///< see gpufs/file/file_record.hpp
  /// grows when a written file gets another version; see file::is_outdated()
  std::uint32_t* file_changes = nullptr;
  std::uint64_t* counters = nullptr;  ///< see gpufs/handle/counters.hpp
};
static_assert(std::is_trivially_copyable_v<fs_ref>);

}  // namespace gpufs
