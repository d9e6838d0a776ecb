// What an object has besides, if a file stands behind it.
#pragma once

#include <gpufs/device.hpp>
#include <gpufs/mapping/backing_file.hpp>
#include <gpufs/mapping/block_runs.hpp>
#include <gpufs/mapping/page_work.hpp>
#include <gpufs/mapping_options.hpp>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <sys/types.h>

namespace gpufs::shared {

/// What the device's bytes are before anybody has written them.
/// file       what the file has
/// unwritten  words that say so; of the file, only what follows the last whole word is read
/// zeros      zeros, as in a file that was made for the object
enum class first_bytes { file, unwritten, zeros };

/// What map() has found out of a file.
struct file_to_map {
  std::shared_ptr<backing_file const> file;
  std::uint64_t offset, bytes;
  access use;
  first_bytes begins_with;
  bool is_scratch, is_eager;
  /// Gives the file its length, once nothing else can fail. Throws shared_memory_error. Null: it
  /// has it.
  std::function<void()> prepare = nullptr;
};

/// What an object has of a file, and for what.
struct file_in_use {
  std::shared_ptr<backing_file const> file;
  std::uint64_t offset;
  access use;
};

/// Opens `bytes` bytes of a file for another use. Throws shared_memory_error.
using file_opener =
    std::function<file_to_map(file_in_use const& now, std::uint64_t bytes, access use)>;

/// Returns 0, -ESTALE: the file ends before byte `end`, or an error.
[[nodiscard]] inline int look_for_end(backing_file const& file, std::uint64_t end) {
  file_version now;
  if (int const error = file.version(now); error != 0) return error;
  return now.size < end ? -ESTALE : 0;
}

/// The device's bytes come by units, the coherence with the CPU goes by blocks. A unit has whole
/// blocks, or is a part of one.
///
///   absent   the device lacks the unit: its bytes are in the file. The CPU's side lacks them, too,
///            unless it is the file itself
///   filling  absent, and a thread brings them
///   spilled  of a scratch object: if it is absent, its bytes are in the spill file, else zeros
///
/// Blocks of absent units are invalid, or read_only if the CPU's side is the file.
/// Protected by the mutex of the address space, but for what does not change: the first five.
struct file_side {
  std::shared_ptr<backing_file const> file;  ///< null: of an anonymous object that spills
  std::uint64_t offset;                      ///< of the object's first byte in the file
  access use;
  bool is_scratch;
  std::uint64_t unit_bytes;

  first_bytes begins_with;
  std::uint64_t unwritten_key = 0;
  block_runs absent = {}, spilled = {};
  std::vector<block_run> filling = {};  ///< by pieces, so that the end of one needs no memory
  block_runs in_file = {};  ///< units that are read from the file, whatever the object began with
  std::shared_ptr<backing_file const> spill_file = {};  ///< null: nothing was spilled
  block_runs changed = {};  ///< blocks that may differ from the file, since calls or the CPU wrote
  block_runs refused = {};  ///< of them, those that could not be written
  block_runs undurable = {};  ///< pages that were written since the last fdatasync
  block_runs reread = {};     ///< of them, those that were read from the file since
  /// of a failed fdatasync of pages that have left memory; 0: none
  int loss = 0;
  buffer<page_hash> known = {};  ///< hashes of what the file has. None: all pages are written
  bool is_busy = false;          ///< it is written back, or waits for that
  bool is_still = false;         ///< pages are written: nobody writes to these blocks meanwhile
  block_run still = {0, 0};      ///< then: the blocks that go to the file
  unsigned fills = 0;            ///< under way
  unsigned stays = 0;            ///< others that need the object
  pid_t saver = 0;               ///< the thread that unmaps it and writes it back; 0: none
  std::optional<file_version> seen = std::nullopt;  ///< nothing: we have written to it since
  std::vector<std::string> errors = {};

  std::atomic<bool> stops{false};  ///< the object goes or gets another file: nobody brings bytes
  std::thread filler = {};         ///< of an eager object

  void note_read(block_run pages) {
    for (auto const& run : undurable.within(pages)) reread.add(run);
  }
  /// The same for byte `end` of the object.
  [[nodiscard]] int look_for_end(std::uint64_t end) const {
    return shared::look_for_end(*file, offset + end);
  }
  [[nodiscard]] bool is_filling(block_run units) const {
    return std::ranges::any_of(filling, [&](block_run f) { return f.overlaps(units); });
  }
  [[nodiscard]] bool is_written_back() const { return use != access::read && !is_scratch; }
  [[nodiscard]] block_run units_of(std::uint64_t first, std::uint64_t end) const {
    if (first >= end) return {0, 0};
    return {first / unit_bytes, (end - 1) / unit_bytes + 1};
  }
};

/// The file's stamps. Nothing: a change of the file might leave them the same.
inline std::optional<file_version> settled_version(backing_file const& file) {
  file_version now;
  if (file.version(now) != 0 || file.is_young(now)) return std::nullopt;
  return now;
}

/// Bytes of a unit: those of a block, at least 64 KiB and at most a piece of I/O.
constexpr std::uint64_t unit_for(std::uint64_t block_bytes, std::uint64_t piece) {
  constexpr std::uint64_t least = 64 << 10;
  return block_bytes > piece ? piece : std::max(block_bytes, least);
}

}  // namespace gpufs::shared
