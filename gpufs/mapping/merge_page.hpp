// Bytes of objects whose file is not read: what nobody has written stays as the file has it.
#pragma once

#include <gpufs/mapping/backing_file.hpp>
#include <gpufs/mapping/file_side.hpp>
#include <gpufs/mapping/object.hpp>

#include <cstddef>
#include <cstdint>

namespace gpufs::shared {

/// What became of a page whose unwritten words were looked for.
struct merged_page {
  bool is_written;     ///< somebody has written to it
  std::uint64_t read;  ///< bytes of the old page
  int error;
};

/// Bytes of a page that lie before `end`.
[[nodiscard]] std::uint64_t bytes_until(std::uint64_t end, std::uint64_t page);

/// Words of `page` that nobody has written get what the file has there. The object has `bytes` of
/// it. Behind its last whole word they began as the file's, and count as written if they differ.
[[nodiscard]] merged_page merge_page(std::byte* page, std::uint64_t bytes, backing_file const& file,
                                     std::uint64_t offset, std::uint64_t key);

/// Writes bytes [r.first, r.end) of an object, from the CPU's side. Returns 0 or -errno.
[[nodiscard]] int write_bytes(file_side const& f, std::byte const* bytes, byte_run r);

}  // namespace gpufs::shared
