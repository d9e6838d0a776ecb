// The host owner of a GPU file system: memory, daemon and settings behind the fs_ref that kernels
// take by value.
#pragma once

#include <gpufs/advice.hpp>
#include <gpufs/config.hpp>
#include <gpufs/file.hpp>
#include <gpufs/file_statistics.hpp>
#include <gpufs/fs_ref.hpp>
#include <gpufs/statistics.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace gpufs {

namespace nvme {
struct software_options;
struct vfio_options;
struct attachment_statistics;
}  // namespace nvme

/// A page cache in GPU memory, the rings, and the daemon threads that serve them.
/// It belongs to the device that was current when it was made. Any host thread calls its members.
/// A process may have any number of filesystems, each with its own settings.
class filesystem {
 public:
  /// Allocates the cache and starts the daemon.
  ///
  /// Throws config_error for bad settings. Throws device_error or std::system_error, naming the
  /// setting to change, if there is no memory or no thread left.
  explicit filesystem(config const& settings = load_config());

  /// Writes all dirty pages to their files, stops the daemon and frees all memory.
  /// Lists on stderr what could not be written and which pages are still mapped.
  /// No kernel that uses this filesystem may be running.
  ///
  /// In a child of fork() it does nothing: files, threads and device are the parent's.
  ~filesystem();
  filesystem(filesystem const&) = delete;
  filesystem& operator=(filesystem const&) = delete;

  /// The handle that kernels take by value. Valid while this object lives.
  [[nodiscard]] fs_ref ref() const;

  /// Opens a regular file, or an attached one ("nvme:NAME"), for kernels. `flags` and `mode` are as
  /// for gopen(). Returns a descriptor for kernels and for the calls below, or -errno as gopen().
  [[nodiscard]] int open(std::string const& path, int flags, unsigned mode = 0644);

  /// Closes `fd` once. The last close of a written file writes its dirty pages to the host file.
  /// The daemon may keep the host file open for a moment more.
  /// Returns 0, or -EBADF not open | the error of the write-back (`fd` is closed all the same).
  int close(int fd);

  /// Reads `count` bytes from byte `offset` into host memory, as pread(2), after the kernels' dirty
  /// pages have been written. Bytes of gwrites through O_GWRONCE are seen after their last gclose.
  ///
  /// Returns bytes read: fewer at the end of the file, or
  ///   -EBADF not open for reading | -EINVAL `offset` < 0 or the end beyond 2^63 | -ENOMEM
  ///   -ETIMEDOUT dirty pages were written without progress for ten seconds (nothing was read)
  ///   an error of fstat(2) or pread(2) | the error of the write-back (then nothing was read)
  std::int64_t read(int fd, void* bytes, std::uint64_t count, std::int64_t offset);

  /// Writes `count` bytes from host memory to byte `offset`, as pwrite(2), after the kernels' dirty
  /// pages. All blocks see the bytes after the next gopen of the file in a kernel. An io_context
  /// made afterwards sees them itself.
  ///
  /// Kernels may gwrite to the file meanwhile. While dirty pages of it cannot be written, kernels
  /// may miss these bytes.
  ///
  /// Returns bytes written: `count` or fewer, or
  ///   -EBADF not open for writing | -EINVAL `offset` < 0 | -EFBIG beyond 2^48
  ///   -EOPNOTSUPP open with O_APPEND: only kernels append | -ENOMEM
  ///   -ETIMEDOUT dirty pages were written without progress for ten seconds (nothing is written)
  ///   an error of pwrite(2)
  ///   the error of the write-back (nothing of this call is written then)
  std::int64_t write(int fd, void const* bytes, std::uint64_t count, std::int64_t offset);

  /// Writes the file's dirty pages to the host file and makes them durable, as gfsync().
  /// Covers every gwrite that returned before the call. Needs no help from running kernels.
  ///
  /// Returns 0, or the first error since the last sync, as gfsync().
  ///   -EBADF not open | -ETIMEDOUT no progress for ten seconds | -ENOSPC | -EDQUOT | -EFBIG | -EIO
  int sync(int fd);

  /// Writes the dirty pages of all files to them. It does not make them durable.
  /// unwritten() lists pages that stay dirty, and sync(fd) returns their error.
  /// Returns 0, or -EIO some stay dirty | -ETIMEDOUT the same, without progress for ten seconds.
  int sync();

  /// Drops the dirty pages of a file that cannot be written, and its error.
  /// Kernels see the host file from their next gopen on. No gwrite to the file may be under way.
  ///
  /// Returns 0, or:
  ///   -EBADF not open | -EINVAL not open for writing
  ///   -ETIMEDOUT a page stayed in use for ten seconds: it stays dirty, all others are dropped
  int discard(int fd);

  /// The bytes that are dirty now, and those that are being written. One line per page:
  /// "PATH: bytes 4096..8191 9000..9001". Waits at most ten seconds for pages that are being
  /// written.
  ///
  /// "PATH: bytes in 4096..8191" is a page whose bytes are not known. A kernel is adding some, or
  /// died doing so, or the write of the page takes longer than ten seconds.
  [[nodiscard]] std::vector<std::string> unwritten() const;

  /// The pages that gmmap has mapped and gmunmap has not given back, one line per page.
  /// No kernel that maps pages may be running.
  [[nodiscard]] std::vector<std::string> unreleased() const;

  /// Stores size, times and identity of an open file, as the host sees them now, in `status`.
  /// The size includes bytes of gwrites that the host file lacks.
  /// Returns 0, or -EBADF not open | an error of fstat(2) |
  ///   -ETIMEDOUT the write of a page takes longer than ten seconds, or a kernel died writing one
  int stat(int fd, file_status& status) const;

  /// Says how the bytes [offset, offset + length) of `fd` will be used. Length 0 means up to the
  /// end of the file. Makes no device call; kernels may be running. Pages in GPU memory stay.
  ///
  /// normal, random, sequential: concern the whole file, as gfadvise() says. A context that reads
  /// it follows after at most 64 batches of pages that were not in the cache. random: the file may
  /// be registered, and memory pinned for that until this object ends.
  ///
  /// willneed, dontneed: ask the operating system to have the bytes in its page cache, or to drop
  /// them (posix_fadvise(2)). willneed also registers file windows of them, where config::path
  /// allows that.
  ///
  /// Returns 0, or -EBADF not open | -EINVAL another advice, `offset` or `length` < 0 |
  ///   another error of posix_fadvise(2)
  int advise(int fd, std::int64_t offset, std::int64_t length, advice what);

  /// Attaches a block file, which kernels and the host then open as "nvme:NAME"; see
  /// gpufs/nvme.hpp. Any host thread calls, while kernels run, too.
  ///
  /// The size is fixed. O_CREAT, O_TRUNC, O_APPEND, ftruncate and unlink give -EINVAL. gfstat says
  /// S_IFBLK, and the block as block size.
  ///
  /// Bytes beyond the end cannot be written. gwrite takes them, the next gfsync or last gclose
  /// returns -ENOSPC, and they stay dirty until discard().
  ///
  /// Kernels read it by NVMe commands of their own while it is not written, if each member has
  /// enough queue pairs for them. On a GPU, drives of vfio_options need relay_doorbells, too.
  ///
  /// Else bytes travel through the daemon, as those of other files. attachment_stats() says which.
  /// config::path does not apply.
  /// @param name  not empty, without '/'
  ///
  /// Throws std::invalid_argument for wrong options or a name that is in use. Throws
  /// std::runtime_error if a member cannot be had, naming the member and the remedy.
  void attach(std::string const& name, nvme::software_options const& options);
  /// As above, with drives that vfio-pci holds.
  void attach(std::string const& name, nvme::vfio_options const& options);

  /// Ends an attachment, and shuts its controllers down.
  /// Any host thread calls.
  /// Returns 0, or -ENOENT nothing has the name | -EBUSY descriptors are open, or pages stay dirty.
  int detach(std::string const& name);

  /// What was done with an attached file. Throws std::invalid_argument if nothing has the name.
  [[nodiscard]] nvme::attachment_statistics attachment_stats(std::string const& name) const;

  /// The counters since this object was made. Exact once no kernel is running.
  [[nodiscard]] statistics stats() const;

  /// Stores what kernels have done through `fd` since it was opened in `counts`;
  /// gpufs::file_statistics says what counts. Exact once no kernel is running.
  ///
  /// Opens of a file in the same way share a descriptor and its counters. They end with its last
  /// close, so keep it open to read them behind a kernel.
  ///
  /// Returns 0, or -EBADF not open | -EOPNOTSUPP config::file_counters is off.
  int file_stats(int fd, file_statistics& counts) const;

  /// What each daemon thread did; empty after stop().
  [[nodiscard]] std::vector<thread_statistics> thread_stats() const;

  /// The settings that the constructor got.
  [[nodiscard]] config const& settings() const;

  /// Where the filesystem departs from its settings, and why, one line each: io_uring refused,
  /// memory not registered and the like.
  [[nodiscard]] std::vector<std::string> notes() const;

  /// The host I/O engine that serves: "io_uring" or "pread".
  [[nodiscard]] std::string backend_name() const;

  /// Bytes of GPU memory for all but pages and the twin of staging: page table, frame headers,
  /// queues, write buffers' ranges, prefetchers, counters, queues of attached block files.
  [[nodiscard]] std::uint64_t metadata_bytes() const;

  /// Bytes of host memory that is pinned.
  [[nodiscard]] std::uint64_t pinned_bytes() const;

  /// Stops the daemon now, even under running kernels. Their waiting calls return -EIO.
  /// So do all later misses, except of pages in registered file windows.
  void stop();

 private:
  struct state;
  std::unique_ptr<state> state_;
};

}  // namespace gpufs
