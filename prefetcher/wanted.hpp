// What a group asks its prefetcher for, and where it finds it.
#pragma once

#include <gpufs/ring/channel.hpp>

#include <cstdint>

namespace gpufs::prefetch {

/// The file bytes of a batch that a group is about to read.
struct wanted {
  std::int32_t fd;
  std::uint64_t version;
  std::uint64_t size;        ///< of the file
  std::uint64_t begin;       ///< first byte of the batch's first page
  std::uint64_t end;         ///< end of its last page, at most `size`
  std::uint64_t read_begin;  ///< first byte of the read that the batch belongs to
  std::uint64_t read_end;    ///< end of that read's last page, at most `size`
  std::uint32_t page_shift;
  /// the file is or was written through this filesystem, so copies of its bytes can be too old
  bool written;
};

/// Where a page lies in a chunk.
struct chunk_position {
  bool found;
  ring::channel via;
  std::uint32_t offset;  ///< of the page in the chunk's staging piece
};

}  // namespace gpufs::prefetch
