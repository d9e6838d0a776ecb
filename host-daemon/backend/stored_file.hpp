// An open file of the storage below the daemon: the interface.
#pragma once

#include <host-daemon/backend/direct_file.hpp>

#include <cerrno>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

struct iovec;
struct stat;

namespace gpufs::daemon {

class file_view;

/// Consecutive bytes of a file that lie together on the storage device.
struct file_extent {
  std::uint64_t offset;   ///< in the file
  std::uint64_t address;  ///< on the device, in bytes
  std::uint64_t bytes;
};

/// The file stays open as long as the object lives. All functions are thread-safe.
/// A function that returns an error returns -errno. It makes one system call and does not repeat
/// it: EINTR and short operations are the caller's.
class stored_file {
 public:
  virtual ~stored_file() = default;

  /// The source of all page reads: the descriptor that I/O engines read and mappers map.
  /// -1: the file has none. Then engines call read(), and nothing is mapped or read directly.
  [[nodiscard]] virtual int read_descriptor() const noexcept = 0;

  /// The view that threads copy from, null if there is none. It lives as long as the file.
  [[nodiscard]] virtual file_view* view() const noexcept { return nullptr; }

  /// Nonzero: kernels read the file by NVMe queue pairs, as this number of the table of backings,
  /// while it is not written.
  [[nodiscard]] virtual std::uint8_t block_backing() const noexcept { return 0; }

  /// The name by which it was opened, as a JSON string: for traces.
  [[nodiscard]] virtual std::string_view traced_name() const noexcept { return "\"\""; }

  /// The source of reads past the OS page cache, opened at the first call.
  /// Throws std::bad_alloc.
  [[nodiscard]] virtual direct_file const& direct() const = 0;

  /// The file's status now, as fstat(2) has it. Returns 0 or -errno.
  [[nodiscard]] virtual int status(struct ::stat& out) const noexcept = 0;

  /// Reads at `offset`, as pread(2). Returns the bytes read, 0 at the end of the file, or -errno.
  [[nodiscard]] virtual std::int64_t read(std::span<std::byte> to,
                                          std::uint64_t offset) const noexcept = 0;

  /// Writes the parts one behind the other at `offset`, as pwritev(2).
  /// Returns the bytes written, perhaps fewer than given, or -errno.
  [[nodiscard]] virtual std::int64_t write(std::span<::iovec const> parts,
                                           std::uint64_t offset) const noexcept = 0;

  /// Makes the file's bytes and its size durable, as fdatasync(2).
  /// Returns 0, also for storage that cannot be made durable, or -errno.
  [[nodiscard]] virtual int sync() const noexcept = 0;

  /// Asks that `length` bytes from `offset` on go to the disk from now on, and waits for none of
  /// them, as sync_file_range(2). The disk's queue may be full; then it waits for room there.
  /// Returns 0, also for storage that cannot do that, or -errno.
  [[nodiscard]] virtual int begin_sync(std::uint64_t /*offset*/,
                                       std::uint64_t /*length*/) const noexcept {
    return 0;
  }

  /// Says that a writer is done, as the writer's close(2) does. A network file system sends the
  /// bytes to its server then, and only then learns that there is no room.
  /// Returns 0 or -errno.
  [[nodiscard]] virtual int end_writes() const noexcept { return 0; }

  /// Sets the size, as ftruncate(2). Returns 0 or -errno.
  [[nodiscard]] virtual int truncate(std::uint64_t size) const noexcept = 0;

  /// Places `length` bytes from `offset` on upon the storage, so that later writes there find room.
  /// The size stays. Returns 0, -EOPNOTSUPP for storage that cannot do that, or -errno.
  [[nodiscard]] virtual int allocate(std::uint64_t /*offset*/,
                                     std::uint64_t /*length*/) const noexcept {
    return -EOPNOTSUPP;
  }

  /// Passes on how the program will use bytes of the file, as posix_fadvise(2). `advice`: one of
  /// POSIX_FADV_*. `length` 0: to the end. Returns 0 or -errno.
  virtual int advise(std::int64_t offset, std::int64_t length, int advice) const noexcept = 0;

  /// The places of bytes [offset, offset + length) on the storage device, by rising offset. Holes
  /// are left out. The places hold only while nothing changes the file.
  /// Returns nothing if they are unknown: the storage does not say, or the bytes of the device are
  /// not the bytes of the file (not yet placed, compressed, encrypted, packed).
  [[nodiscard]] virtual std::optional<std::vector<file_extent>> extents(
      std::uint64_t offset, std::uint64_t length) const = 0;
};

}  // namespace gpufs::daemon
