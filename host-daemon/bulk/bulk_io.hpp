// Bulk I/O: host code moves ranges of a file into its memory or a device's, or from there.
#pragma once

#include <gpufs/config.hpp>

#include <host-daemon/base/io_hooks.hpp>
#include <host-daemon/base/note_list.hpp>
#include <host-daemon/base/request_recorder.hpp>
#include <host-daemon/device_work/device_copier.hpp>
#include <host-daemon/files/file_registry.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

namespace gpufs::daemon {

/// A range of a file, and what became of it.
struct bulk_range {
  std::uint64_t offset = 0;    ///< in the file
  std::uint64_t length = 0;    ///< 0: nothing to do
  std::uint64_t position = 0;  ///< of its first byte in the memory
  /// Set by the call. The bytes that were moved, from the front of the range on. Fewer than
  /// `length` at the end of the file or before an error. -errno if an error came first.
  std::int64_t result = 0;
};

/// Host memory, or memory of a device that a copier reaches.
struct bulk_memory {
  bulk_memory(std::span<std::byte> memory) noexcept  // NOLINT: host memory is memory
      : host{memory.data()}, bytes{memory.size()} {}
  bulk_memory(device_copier& reached_by, std::uint64_t address, std::uint64_t size) noexcept
      : copier{&reached_by}, device{address}, bytes{size} {}

  std::byte* host = nullptr;
  device_copier* copier = nullptr;  ///< null: host memory
  std::uint64_t device = 0;         ///< the device's address
  std::uint64_t bytes;
};

struct bulk_settings {
  io_backend backend = io_backend::automatic;  ///< uring counts as automatic
  io_path path = io_path::automatic;           ///< reads: past the OS page cache or not
  unsigned queue_depth = 64;                   ///< of a ring
  io_hooks hooks;
  request_recorder* requests = nullptr;  ///< where they are recorded, null: nowhere
};

/// Works in the caller's thread. Any number of threads call at a time; a copier serves one call at
/// a time. No daemon thread takes part, so it works whether the daemon runs or not.
///
/// Reads go by io_uring if there is more than one part of work, with many under way at a time, and
/// past the OS page cache where the daemon's reads do. Ranges come in any order; where they overlap
/// in the memory or in a written file, either may be last.
class bulk_io {
 public:
  /// `files` must outlive it.
  bulk_io(file_registry& files, bulk_settings settings);
  ~bulk_io();
  bulk_io(bulk_io const&) = delete;
  bulk_io& operator=(bulk_io const&) = delete;

  /// Reads ranges of an open file into `to`. Bytes that kernels wrote and that are not in the file
  /// yet are not seen: sync first. Holes are zeros. Sets every result.
  /// Returns 0 if no range met an error, else the first one's, or
  ///   -EBADF not open | -EINVAL a range beyond `to` or 2^63 | -ENOMEM
  [[nodiscard]] int read(std::int32_t descriptor, std::span<bulk_range> ranges,
                         bulk_memory const& to) noexcept;

  /// Writes ranges of a file that is open for writing, as fs.write: first the kernels' dirty pages;
  /// afterwards the file has a new version. Sets every result.
  /// Returns as read(), or -EFBIG a range beyond 2^48 | the error of the dirty pages. Then no
  /// range was written.
  [[nodiscard]] int write(std::int32_t descriptor, std::span<bulk_range> ranges,
                          bulk_memory const& from) noexcept;

  /// What was read otherwise than the settings say, and why: one sentence each.
  [[nodiscard]] std::vector<std::string> notes() const { return notes_.all(); }

  /// The longest part of work. A range is moved in parts.
  static constexpr std::uint64_t part_bytes = 1 << 20;

 private:
  class lane;
  class lane_lease;

  std::unique_ptr<lane> take_lane(bool deep);
  void return_lane(std::unique_ptr<lane> used) noexcept;

  file_registry& files_;
  bulk_settings settings_;
  note_list notes_;
  std::mutex mutex_;                         // guards idle_
  std::vector<std::unique_ptr<lane>> idle_;  // with rings, for the next callers
};

}  // namespace gpufs::daemon
