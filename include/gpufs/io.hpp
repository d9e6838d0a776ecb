// The file API that kernels call. Collective over a group (a threadblock, or a 32-thread tile of
// it): all its threads call with the same arguments and get the same result. >= 0 on success,
// -errno on failure, as the POSIX calls of the same names would.
#pragma once

#include <gpufs/advice.hpp>
#include <gpufs/device.hpp>
#include <gpufs/fs_ref.hpp>
#include <gpufs/rpc/client.hpp>

#include <cstddef>
#include <cstdint>

#include <fcntl.h>
#include <sys/types.h>

namespace gpufs {

template <class Group>
class io_context;

namespace detail {
/// A page of a read under way: lane i of the group's first warp has page i.
struct async_page {
  channel via;
  std::uint32_t writes = 0;  ///< writes_counted() when it was requested
};
}  // namespace detail

/// Opens the regular file at `path` (a NUL-terminated string that every thread of the group can
/// read). `flags`: O_RDONLY, O_WRONLY or O_RDWR, with O_CREAT (`mode` as for open(2)), O_EXCL,
/// O_TRUNC, O_APPEND, O_GWRONCE where wanted. O_TRUNC and O_EXCL act only while no descriptor of
/// the file is open in this filesystem: of blocks that all open with them only the first truncates
/// or creates. (If all of them close before a late block opens, that one is the first again; let
/// the host hold the file open over the kernel.) Returns a descriptor that every block, later
/// kernels and the host may use until it has been closed as often as it was opened; opening one
/// file again in the same way gives the same descriptor. Errors: -ENOENT, -EEXIST, -EACCES, -EISDIR
/// (a directory), -EOPNOTSUPP (not a regular file), -ENAMETOOLONG, -ENFILE (config::max_open_files
/// are open), -EMFILE (the process has no descriptor left), -EINVAL (other flags; O_TRUNC without
/// write access), -EROFS (write access with config::write_memory == 0), -ETIMEDOUT, -EIO (daemon
/// stopped), or what else open(2) says.
template <class Group>
[[nodiscard]] __device__ int gopen(io_context<Group>& io, char const* path, int flags,
                                   unsigned mode = 0644);

/// Gives one gopen back. The pages stay cached for whoever opens the unchanged file next. The last
/// gclose of a file that is written writes its dirty pages to the host's file first, for whoever
/// opens it next (durable they are not: gfsync). Errors: -EBADF, -ETIMEDOUT, -EIO (daemon stopped),
/// or what kept dirty pages from being written: the descriptor is closed all the same, and a gfsync
/// after another gopen tries again.
template <class Group>
__device__ int gclose(io_context<Group>& io, int fd);

/// Reads up to `count` bytes at byte `offset` of `fd` into `buf` (device or shared memory, any
/// alignment). Returns the bytes read: short at end of file and before a failure, 0 beyond the end.
/// Errors (only if nothing was read before them): -EBADF, -EFAULT (`buf` is null), -EINVAL
/// (negative offset), -EIO (the host's read failed, or the daemon stopped) or the host's own errno,
/// -ETIMEDOUT (no answer within config::rpc_timeout_ms), -ENOMEM (all frames stayed pinned that
/// long). Starts and ends with a barrier of the group: `buf` may be reused by the caller's group
/// without further synchronisation. Group size: at least 32 threads, else -EINVAL.
template <class Group>
[[nodiscard]] __device__ __forceinline__ ssize_t gread(io_context<Group>& io, int fd, void* buf,
                                                       std::size_t count, std::int64_t offset);

/// A read that gread_async has begun: for gwait and gtest of the same group, with the same context.
/// Every thread keeps its own.
struct async_read {
  std::int32_t fd = -1;
  void* buffer = nullptr;
  std::size_t count = 0;
  std::int64_t offset = 0;
  std::uint64_t uid = 0;
  std::uint64_t size = 0;
  std::uint32_t requested = 0;  ///< bits of the pages that were asked for, from the first one on
  detail::async_page page;
};

/// Begins a gread: asks for the pages that are not in the cache and returns. Any number of them may
/// be under way for one context; they end in whatever order they are waited for. At most the first
/// 32 pages are read: a longer `count` is cut, as gwait tells. `buf` must not be used, and the
/// descriptor not be closed, until gwait. Never waits: what cannot be asked for now, gwait reads.
/// Errors are gwait's.
template <class Group>
[[nodiscard]] __device__ async_read gread_async(io_context<Group>& io, int fd, void* buf,
                                                std::size_t count, std::int64_t offset);

/// Whether gwait of `r` would find all its requests answered: 1, or 0.
template <class Group>
[[nodiscard]] __device__ int gtest(io_context<Group>& io, async_read const& r);

/// Ends a read that gread_async has begun: waits for its bytes and delivers them. Returns what
/// gread would. Each read must be waited for once, before its context ends: until then it holds a
/// piece of staging per page.
template <class Group>
[[nodiscard]] __device__ ssize_t gwait(io_context<Group>& io, async_read& r);

/// Writes `count` bytes from `buf` (device or shared memory, any alignment) to byte `offset` of
/// `fd`, or to its end if it was opened with O_APPEND. Every block sees them at once; the host's
/// file has them after gfsync, the last gclose, or when their pages make room. Writes beyond the
/// end leave a hole that reads as zeros. Writes of different bytes at the same time, here, by the
/// host or by other processes, all survive. Returns `count`, or fewer if a page could not be had,
/// or if not one byte was written: -EBADF (not open for writing), -EINVAL, -EFBIG (beyond 2^48),
/// -ENOMEM (no frame or write buffer for config::rpc_timeout_ms: all hold pages that the host
/// cannot write), -ETIMEDOUT, -EIO, an error of the fetch of a page that is written in part, or the
/// error of an earlier write that gfsync has not reported yet. Starts and ends with a barrier of
/// the group. Group size: at least 32 threads, else -EINVAL.
template <class Group>
[[nodiscard]] __device__ ssize_t gwrite(io_context<Group>& io, int fd, void const* buf,
                                        std::size_t count, std::int64_t offset);

/// Writes the file's dirty pages to the host's file and makes it durable, as fsync(2) does. All
/// that any gwrite has returned for before the call is included. Returns 0, or the first error
/// since the last gfsync of the file, once; what could not be written stays dirty, and the next
/// gfsync tries again. Errors: -EBADF, -ETIMEDOUT (not done within config::rpc_timeout_ms; it goes
/// on), -ENOSPC, -EDQUOT, -EFBIG, -EIO, ...
template <class Group>
[[nodiscard]] __device__ int gfsync(io_context<Group>& io, int fd);

/// Sets the size of a file open for writing: bytes beyond it are gone, bytes it gains are zeros.
/// What gwrite wrote before is in the host's file afterwards; gwrites at the same time come before
/// or after it. Errors: -EBADF, -EINVAL (not open for writing, negative), -EFBIG, -ETIMEDOUT, -EIO,
/// or what ftruncate(2) says.
template <class Group>
[[nodiscard]] __device__ int gftruncate(io_context<Group>& io, int fd, std::int64_t size);

/// Removes a name, as unlink(2) does: descriptors that are open keep the file. Errors: what
/// unlink(2) says, -ENAMETOOLONG, -ETIMEDOUT, -EIO.
template <class Group>
[[nodiscard]] __device__ int gunlink(io_context<Group>& io, char const* path);

/// Maps bytes of a file: has the page that byte `offset` lies in pinned in the page cache and
/// stores a pointer to that byte in each thread's own `*address`. Returns how many bytes from there
/// on are mapped: `count`, or fewer, since a mapping ends with its page and with the file; 0 at the
/// end of the file and beyond. The page stays where it is until gmunmap; the group that maps need
/// not be the one that unmaps, and any block, and later kernels, may use the pointer. `protection`:
/// PROT_READ, or PROT_READ | PROT_WRITE for a file opened with O_RDWR: then stores reach every
/// block's gread at once, and the host's file after gmsync of exactly the bytes that were stored.
/// Errors: -EBADF, -EINVAL (another protection, negative offset, count 0, a group of less than 32
/// threads), -EFAULT (`address` is null), -EACCES (protection that the descriptor does not allow),
/// -ENOMEM (all frames stayed pinned for config::rpc_timeout_ms), or what gread returns for a page
/// that cannot be had. Pages that stay mapped when the filesystem ends are reported:
/// filesystem::mapped().
template <class Group>
[[nodiscard]] __device__ ssize_t gmmap(io_context<Group>& io, int fd, std::size_t count,
                                       std::int64_t offset, int protection, void** address);

/// Undoes one gmmap of the page that `address` lies in. Starts with a barrier of the group: other
/// users of the pointer must be done with it. Returns 0, or -EINVAL (nothing is mapped there).
template <class Group>
__device__ int gmunmap(io_context<Group>& io, void const* address);

/// Hands the `count` bytes at `address`, which lie in one page that gmmap has mapped from `fd`,
/// over to be written to the file, as a gwrite of them would; with MS_SYNC in place of MS_ASYNC
/// they are durable on return. Starts with a barrier of the group. Bytes beside them are not
/// written, so that writers of different bytes of a page all survive. Returns 0, or -EBADF, -EINVAL
/// (other flags; not mapped; beyond the page's end), -EACCES (not O_RDWR), -ESTALE (the file was
/// truncated since it was mapped), or what gwrite and gfsync return.
template <class Group>
[[nodiscard]] __device__ int gmsync(io_context<Group>& io, int fd, void const* address,
                                    std::size_t count, int flags);

/// Size, times and identity of an open file, as the host sees them now, into each thread's own
/// `*status`. The size includes what gwrite added. Errors: -EBADF, -ETIMEDOUT, -EIO.
template <class Group>
[[nodiscard]] __device__ int gfstat(io_context<Group>& io, int fd, file_status* status);

/// Says how the bytes [offset, offset + length) of `fd` will be used; length 0 = up to the end of
/// the file. Returns 0, or -EBADF, -EINVAL (another advice, negative offset or length, a group of
/// less than 32 threads), -ETIMEDOUT, -EIO.
/// - normal, random, sequential are about the whole descriptor, whatever the range, hence about all
/// who have opened the file; the last one
///   holds until the descriptor is closed for good. random: requests cover what a gread misses and
///   nothing else, whatever config::prefetch_size; with io_path auto parts of a file that nobody
///   writes are mapped as they are read (io_path), and stay so whatever is said later. sequential:
///   a context's first read of the file counts as the continuation of a sequential one, and the
///   automatic window is at its limit at once. All contexts act on it from their next miss on. The
///   host's own readahead follows, too.
/// - willneed: the group brings the range's pages into the page cache before it returns; as many of
/// them, from the first on, as the cache has
///   frames. May also return what gread returns for a page that cannot be had.
/// - dontneed: pages that lie in the range as a whole leave the page cache, unless somebody has
/// them pinned. The host's page cache is left
///   alone: for that there is filesystem::advise().
template <class Group>
__device__ int gfadvise(io_context<Group>& io, int fd, std::int64_t offset, std::int64_t length,
                        advice what);

}  // namespace gpufs

#include <gpufs/io/advise.hpp>
#include <gpufs/io/async.hpp>
#include <gpufs/io/io_context.hpp>
#include <gpufs/io/map.hpp>
#include <gpufs/io/open.hpp>
#include <gpufs/io/read.hpp>
#include <gpufs/io/sync.hpp>
#include <gpufs/io/write.hpp>
