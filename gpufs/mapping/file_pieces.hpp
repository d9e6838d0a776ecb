// Work that threads with lanes share: parts of an object that come from its file, or go there.
#pragma once

#include <gpufs/mapping/block_runs.hpp>
#include <gpufs/mapping/object.hpp>
#include <gpufs/mapping/page_work.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace gpufs::shared {

/// Where absent bytes come from. `file` and `spill_file` are read, and of `unwritten` what follows
/// the last whole word of 8 bytes of an object: it is too short to say that nobody has written it.
enum class fill_source { file, unwritten, zeros, spill_file };

/// Units of an object that one read brings.
struct fill_piece {
  block_run units;
  byte_run bytes;
  bool is_at_host;  ///< they go to the CPU's side, which is their only memory
  fill_source source;
  bool has_ended = false;  ///< with bytes or an error; needs the mutex

  /// How many of its bytes follow the last whole word of an object of so many bytes.
  [[nodiscard]] std::uint64_t last_bytes(std::uint64_t of_object) const {
    return bytes.end == of_object ? of_object % sizeof(std::uint64_t) : 0;
  }
};

/// Pieces that threads bring side by side.
struct fill_job {
  std::vector<fill_piece> pieces;
  std::atomic<std::size_t> next{0};  ///< of them, that no thread has begun
  int error = 0;                     ///< the first one; needs the mutex
  std::string why = {};              ///< where that was, and what; needs the mutex
};

/// The pages of the file that have bytes of an object.
[[nodiscard]] inline block_run file_pages_of(byte_run bytes) {
  return {bytes.first / file_page, (bytes.end + file_page - 1) / file_page};
}

/// A part of an object on its way to the file.
struct write_piece {
  byte_run bytes;
  bool is_at_host;  ///< the CPU's side is their only memory
  int error = 0;
  std::uint64_t written_bytes = 0, unchanged_pages = 0, merged_bytes = 0;
  std::vector<block_run> written = {};  ///< pages, by their number in the object
};

}  // namespace gpufs::shared
