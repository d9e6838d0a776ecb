// What device code needs of dirty pages and of files that are written.
#pragma once

#include <cstdint>

namespace gpufs::cache {
struct line;
}
namespace gpufs::dirty {
struct buffer_state;
}
namespace gpufs::file {
struct shared_file;
}

namespace gpufs::handle {

/// Dirty pages and what device code knows of files that are written. See
/// gpufs/dirty/write_buffer.hpp and gpufs/file/shared_file.hpp.
struct write_ref {
  dirty::buffer_state* buffers = nullptr;  ///< one per write buffer; null = files cannot be written
  std::uint32_t* frame_buffers = nullptr;  ///< per frame: lock << 31 | 1 + write buffer
  std::uint64_t* hand = nullptr;           ///< where the search for a clean write buffer goes on
  cache::line* line = nullptr;         ///< the buffer line: callers that wait for a write buffer
  file::shared_file* files = nullptr;  ///< by place
  /// by hash of file version and region: see write_counter()
  std::uint32_t* write_counters = nullptr;
};

}  // namespace gpufs::handle
