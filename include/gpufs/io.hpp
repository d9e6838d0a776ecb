// The file API that kernels call. Collective over a group (a threadblock, or a 32-thread tile of it): all its threads call with the
// same arguments and get the same result. >= 0 on success, -errno on failure, as the POSIX calls of the same names would.
#pragma once

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
/// at end of file and before a failure, 0 beyond the end. Errors (only if nothing was read before them): -EBADF, -EINVAL (negative
/// offset), -EIO (the host's read failed, or the daemon stopped) or the host's own errno, -ETIMEDOUT (no answer within
/// config::rpc_timeout_ms), -ENOMEM (all frames stayed pinned that long). Starts and ends with a barrier of the group: `buf` may be reused
/// by the caller's group without further synchronisation. Group size: at least 32 threads, else -EINVAL.
template <class Group>
[[nodiscard]] __device__ __forceinline__ ssize_t gread(io_context<Group>& io, int fd, void* buf, std::size_t count,
                                                       std::int64_t offset);

/// Size, times and identity of an open file, as the host sees them now, into each thread's own `*status`.
/// Errors: -EBADF, -ETIMEDOUT, -EIO.
template <class Group>
[[nodiscard]] __device__ int gfstat(io_context<Group>& io, int fd, file_status* status);

}  // namespace gpufs

#include <gpufs/io/io_context.hpp>
#include <gpufs/io/open.hpp>
#include <gpufs/io/read.hpp>
