// The file API that kernels call. Collective over a group (a threadblock, or a 32-thread tile of it): all its threads call with the
// same arguments and get the same result. >= 0 on success, -errno on failure, as the POSIX calls of the same names would.
#pragma once

#include <gpufs/advice.hpp>
#include <gpufs/device.hpp>
#include <gpufs/fs_ref.hpp>

#include <cstddef>
#include <cstdint>

#include <fcntl.h>
#include <sys/types.h>

namespace gpufs {

template <class Group>
class io_context;

/// Opens the regular file at `path` (a NUL-terminated string that every thread of the group can read). `flags`: O_RDONLY.
/// Returns a descriptor that every block, later kernels and the host may use until it has been closed as often as it was opened;
/// opening one file again gives the same descriptor. Errors: -ENOENT, -EACCES, -EISDIR (a directory), -EOPNOTSUPP (not a regular
/// file), -ENAMETOOLONG, -ENFILE (config::max_open_files are open), -EMFILE (the process has no descriptor left), -EINVAL,
/// -EROFS (flags other than O_RDONLY), -ETIMEDOUT, -EIO (daemon stopped), or what else open(2) says.
template <class Group>
[[nodiscard]] __device__ int gopen(io_context<Group>& io, char const* path, int flags);

/// Gives one gopen back. The pages stay cached for whoever opens the unchanged file next. Errors: -EBADF, -ETIMEDOUT, -EIO.
template <class Group>
__device__ int gclose(io_context<Group>& io, int fd);

/// Reads up to `count` bytes at byte `offset` of `fd` into `buf` (device or shared memory, any alignment). Returns the bytes read: short
/// at end of file and before a failure, 0 beyond the end. Errors (only if nothing was read before them): -EBADF, -EFAULT (`buf` is
/// null), -EINVAL (negative offset), -EIO (the host's read failed, or the daemon stopped) or the host's own errno, -ETIMEDOUT (no answer within
/// config::rpc_timeout_ms), -ENOMEM (all frames stayed pinned that long). Starts and ends with a barrier of the group: `buf` may be reused
/// by the caller's group without further synchronisation. Group size: at least 32 threads, else -EINVAL.
template <class Group>
[[nodiscard]] __device__ __forceinline__ ssize_t gread(io_context<Group>& io, int fd, void* buf, std::size_t count,
                                                       std::int64_t offset);

/// Size, times and identity of an open file, as the host sees them now, into each thread's own `*status`.
/// Errors: -EBADF, -ETIMEDOUT, -EIO.
template <class Group>
[[nodiscard]] __device__ int gfstat(io_context<Group>& io, int fd, file_status* status);

/// Says how the bytes [offset, offset + length) of `fd` will be used; length 0 = up to the end of the file. Returns 0, or -EBADF, -EINVAL
/// (another advice, negative offset or length, a group of less than 32 threads), -ETIMEDOUT, -EIO.
/// - normal, random, sequential are about the whole descriptor, whatever the range, hence about all who have opened the file; the last one
///   holds until the descriptor is closed for good. random: requests cover what a gread misses and nothing else, whatever
///   config::prefetch_size. sequential: a context's first read of the file counts as the continuation of a sequential one, and the
///   automatic window is at its limit at once. All contexts act on it from their next miss on. The host's own readahead follows, too.
/// - willneed: the group brings the range's pages into the page cache before it returns; as many of them, from the first on, as the cache has
///   frames. May also return what gread returns for a page that cannot be had.
/// - dontneed: pages that lie in the range as a whole leave the page cache, unless somebody has them pinned. The host's page cache is left
///   alone: for that there is filesystem::advise().
template <class Group>
__device__ int gfadvise(io_context<Group>& io, int fd, std::int64_t offset, std::int64_t length, advice what);

}  // namespace gpufs

#include <gpufs/io/advise.hpp>
#include <gpufs/io/io_context.hpp>
#include <gpufs/io/open.hpp>
#include <gpufs/io/read.hpp>
