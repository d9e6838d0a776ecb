// The host owner of a GPU file system: memory, daemon and settings behind the fs_ref that kernels
// take by value.
#pragma once

#include <gpufs/advice.hpp>
#include <gpufs/config.hpp>
#include <gpufs/fs_ref.hpp>
#include <gpufs/statistics.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace gpufs {

namespace daemon {
struct fault_injector;
}

/// A page cache in GPU memory, the ring, and the daemon threads that serve it. Any number can exist
/// in one process, each with its own settings; each belongs to the device that was current when it
/// was made. Host calls are thread-safe.
class filesystem {
 public:
  /// Allocates the cache and starts the daemon. Throws config_error for bad settings and
  /// device_error or std::system_error, naming the setting to change, when memory or threads cannot
  /// be had. `faults`, for tests, is consulted before each host read.
  explicit filesystem(config const& settings = load_config(),
                      std::shared_ptr<daemon::fault_injector> faults = nullptr);

  /// Writes all dirty pages to their files, stops the daemon and frees everything; what cannot be
  /// written, and pages that are still mapped, are listed on stderr. No kernel that uses this
  /// filesystem may be running.
  ~filesystem();
  filesystem(filesystem const&) = delete;
  filesystem& operator=(filesystem const&) = delete;

  /// The handle kernels take by value. Valid as long as this object lives.
  [[nodiscard]] fs_ref ref() const;

  /// Opens a regular file for kernels; returns a descriptor to pass to them, or -errno as gopen
  /// does. `flags` and `mode` as there.
  [[nodiscard]] int open(std::string const& path, int flags, unsigned mode = 0644);

  /// Gives one open() back; the last one of a file that is written writes its dirty pages first.
  /// Returns 0, -EBADF, or as gclose.
  int close(int fd);

  /// Writes to a file from host memory, as pwrite(2), after the dirty pages of kernels. Kernels see
  /// the bytes from their next gopen of the file or io_context on, and after that at once in all.
  /// Returns `count`, fewer, or -errno: -EBADF (not open for writing), -EINVAL, -EFBIG, ..., or
  /// what keeps the dirty pages from being written: then these bytes are not written either. What
  /// kernels gwrite to the file meanwhile may be missed by those that open it later, until all
  /// writers have closed it.
  std::int64_t write(int fd, void const* bytes, std::uint64_t count, std::int64_t offset);

  /// What gfsync does: all that gwrite has returned for is in the file and durable. Works while
  /// kernels run, without their help. Returns 0, -EBADF, or the file's first error since the last
  /// sync, once.
  int sync(int fd);

  /// Writes the dirty pages of all files to them, durable they are not. Returns 0, or -EIO if some
  /// stay dirty: unwritten() and sync(fd) tell.
  int sync();

  /// Drops the dirty pages of a file that cannot be written, and its error. Kernels see the host's
  /// file from their next gopen on. No gwrite to it may be under way. Returns 0, -EBADF, -EINVAL
  /// (not open for writing).
  int discard(int fd);

  /// Which bytes of which files are dirty now, those that are being written among them, one line
  /// per page: "PATH: bytes 4096..8191 9000..9001", or "PATH: bytes in 4096..8191" if a kernel is
  /// adding bytes to the page, or died doing so. Waits for pages that are being written, ten
  /// seconds at most.
  [[nodiscard]] std::vector<std::string> unwritten() const;

  /// Which pages gmmap has mapped and gmunmap not given back, one line per page. No kernel that
  /// maps pages may be running.
  [[nodiscard]] std::vector<std::string> mapped() const;

  /// Size, times and identity of an open file as the host sees them now. Returns 0 or -errno.
  int stat(int fd, file_status& status) const;

  /// Says how the bytes [offset, offset + length) of `fd` will be used; length 0 = up to the end of
  /// the file. normal, random and sequential are about the whole file, as gfadvise() says (random:
  /// it may be mapped, and memory pinned for that until this object ends); a context that is
  /// reading it takes notice after at most 64 batches of pages that were not in the cache. willneed
  /// and dontneed ask the operating system to have the bytes in its page cache, or to drop them
  /// from it (posix_fadvise(2)); where the file may be mapped (io_path), willneed has windows of
  /// them mapped. Pages in GPU memory are left alone. May be called while kernels run; makes no
  /// device call. Returns 0, or -EBADF, -EINVAL (another advice, negative offset or length).
  int advise(int fd, std::int64_t offset, std::int64_t length, advice what);

  [[nodiscard]] statistics stats() const;

  /// What each daemon thread did; empty after stop().
  [[nodiscard]] std::vector<thread_statistics> thread_stats() const;

  [[nodiscard]] config const& settings() const;

  /// What the filesystem does other than asked for, and why: io_uring refused, memory not
  /// registered, ...
  [[nodiscard]] std::vector<std::string> notes() const;

  /// Which host I/O engine serves ("io_uring" or "pread").
  [[nodiscard]] std::string backend_name() const;

  /// Bytes of GPU memory spent on metadata (page table, frame headers, queues), and host memory
  /// that is pinned.
  [[nodiscard]] std::uint64_t metadata_bytes() const;
  [[nodiscard]] std::uint64_t pinned_bytes() const;

  /// Stops the daemon now, even under running kernels: their waiting calls, and all later misses
  /// but of pages in mapped files, return -EIO.
  void stop();

 private:
  struct state;
  std::unique_ptr<state> state_;
};

}  // namespace gpufs
