// What device code needs of the table of file windows.
#pragma once

#include <gpufs/rpc/window_format.hpp>

#include <cstdint>

namespace gpufs::handle {

/// Windows of files that kernels read by themselves. See gpufs/source/window.hpp.
struct window_table_ref {
  /// in GPU memory, written by the host; null = files are not mapped
  rpc::window_entry* entries = nullptr;
  std::uint32_t mask = 0;   ///< how many there are, less one: a power of two
  std::uint32_t shift = 0;  ///< log2 of a window's bytes
  // Of the filter that decides which elements are loaded without their page. See
  // gpufs/io/element/straight.hpp.
  std::uint32_t* element_counts = nullptr;  ///< element_count_words, in GPU memory
  std::uint32_t element_count_words = 0;
  std::uint32_t straight_loads = 0;  ///< of a page's elements before the page is brought in
};

}  // namespace gpufs::handle
