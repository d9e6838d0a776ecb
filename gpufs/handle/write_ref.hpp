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
  /// Where the searches for a clean write buffer go on; hand i is at hands[i * hand_stride]. Each
  /// block uses one hand, so consecutive pages of a block mostly get consecutive buffers. A thread
  /// of the daemon writes a stretch of buffers, and can write such pages by one call.
  std::uint64_t* hands = nullptr;
  std::uint32_t hand_count = 1;        ///< a power of two
  cache::line* line = nullptr;         ///< the buffer line: callers that wait for a write buffer
  file::shared_file* files = nullptr;  ///< by place
  /// by hash of file version and region: see write_counter()
  std::uint32_t* write_counters = nullptr;
};

/// Hands lie so many words apart: in sectors of memory of their own.
inline constexpr std::uint32_t hand_stride = 4;

}  // namespace gpufs::handle
