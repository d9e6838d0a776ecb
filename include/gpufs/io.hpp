// The file API that kernels call. A group calls together: a threadblock, or a 32-thread tile of it.
// All its threads pass the same arguments and get the same result.
//
// Results are >= 0 on success and -errno on failure, as those of the POSIX calls of the same names.
// A group of less than 32 threads gets -EINVAL. "In time" means within config::rpc_timeout_ms.
#pragma once

#include <gpufs/advice.hpp>
#include <gpufs/device.hpp>
#include <gpufs/file.hpp>
#include <gpufs/file_statistics.hpp>
#include <gpufs/fs_ref.hpp>

#include <cstddef>
#include <cstdint>

#include <fcntl.h>
#include <sys/types.h>

namespace gpufs {

/// A context: a group's access to a filesystem, io_context(fs, group). The group is a threadblock,
/// or a cooperative_groups::tiled_partition<32> of one.
///
/// All threads of a group make it together before their first file call, pass it to every call, and
/// destroy it together. A group can have several.
///
/// Threads may return early. They wait at the context's end for the others. After one thread has
/// returned, the others may only access elements: no calls, and no barrier of the whole group.
///
/// A context has a seat (config::seats) until it ends. If no seat is free, all calls work, but
/// reads are not prefetched, and frames come from the queues that all share.
template <class Group>
class io_context;

/// Opens the regular file at `path`, a NUL-terminated string that all threads can read. "nvme:NAME"
/// is a block file that filesystem::attach() serves; attach() says what it refuses.
/// All threads of the group call.
/// @param flags  O_RDONLY, O_WRONLY or O_RDWR; may add O_CREAT, O_EXCL, O_TRUNC, O_APPEND,
///               O_NOFOLLOW and O_GWRONCE. O_CLOEXEC, O_NONBLOCK, O_NOCTTY and O_LARGEFILE are
///               taken and change nothing
/// @param mode   permissions of a created file, as for open(2)
///
/// Every block, later kernels and the host may use the descriptor. It stays open until gclose was
/// called as often as gopen. A file opened again in the same way gets the same descriptor.
///
/// It belongs to this filesystem. Another one normally returns -EBADF for it; do not rely on that.
/// O_WRONLY needs the right to read, too: pages are written in part. O_GWRONCE does not.
///
/// O_TRUNC and O_EXCL act only while this filesystem has no descriptor of the file open. So of
/// blocks that all open with them, only the first truncates or creates.
///
/// If all of them close before a late block opens, that block is the first again. To avoid this,
/// the host opens the file before the launch and closes it after the kernel has ended. Once the
/// host has begun to truncate, gopen waits for the end, whatever config::rpc_timeout_ms.
///
/// Returns the descriptor, or
///   -ENOENT | -EEXIST | -EACCES | -ENAMETOOLONG | another error of open(2)
///   -EPERM writing an append-only file (chattr +a): write-back does not append
///   -EISDIR a directory | -EOPNOTSUPP not a regular file | -EFBIG a file above 2^48 bytes
///   -ENFILE config::max_open_files are open, or files that cannot be written hold all places of
///   written files | -EMFILE the process has no descriptor left
///   -EINVAL other flags, O_TRUNC without write access, O_GWRONCE with O_APPEND
///   -EROFS write access or O_CREAT with config::write_memory == 0
///   -ETIMEDOUT no answer in time | -EIO daemon stopped
template <class Group>
[[nodiscard]] __device__ int gopen(io_context<Group>& io, char const* path, int flags,
                                   unsigned mode = 0644);

/// Closes `fd` once. The last gclose of a written file writes its dirty pages to the host file.
/// It does not make them durable; gfsync does. All threads of the group call.
///
/// Pages stay in the cache for the next gopen of the unchanged file. A file that was written counts
/// as changed, unless another descriptor of it is open for writing.
///
/// After an error of the write-back the pages stay dirty, and a gfsync after another gopen tries
/// again.
///
/// Nobody may use `fd` after its last gclose. A gwrite by another io_context might not notice that
/// it is closed, and its bytes would be lost.
///
/// Returns 0, or
///   -EBADF not open | -EIO daemon stopped
///   -ETIMEDOUT no answer in time (the daemon goes on, and closes `fd`)
///   -EAGAIN too many requests wait for answers (`fd` stays open: call again)
///   the error of the write-back (`fd` is closed all the same)
template <class Group>
__device__ int gclose(io_context<Group>& io, int fd);

/// Reads up to `count` bytes from byte `offset` of `fd` into `buf`.
/// `buf` is device or shared memory of any alignment. All threads of the group call.
/// Begins and ends with a group barrier, so that the group may reuse `buf` at once.
///
/// Returns bytes read: fewer at end of file or before a failure, 0 beyond it. If none was read:
///   -EBADF not open for reading | -EFAULT null `buf` | -EINVAL `offset` < 0, small group
///   -EIO the host's read failed, daemon stopped | another errno of the host's read
///   -ETIMEDOUT no answer in time | -ENOMEM all frames stayed pinned for config::rpc_timeout_ms
template <class Group>
[[nodiscard]] __device__ __forceinline__ ssize_t gread(io_context<Group>& io, int fd, void* buf,
                                                       std::size_t count, std::int64_t offset);

/// Writes `count` bytes from `buf` to byte `offset` of `fd`, or to its end if opened with O_APPEND.
/// `buf` is device or shared memory of any alignment. All threads of the group call.
/// Begins and ends with a group barrier.
///
/// Every block sees the bytes when gwrite has returned. The host file has them after gfsync or the
/// last gclose, or earlier, when their pages make room.
///
/// A write beyond the end makes the file longer; the gap reads as zeros. Concurrent writes of
/// different bytes all survive: of this GPU, of the host, of other processes.
///
/// Returns the number of bytes written, from the first on: `count`, or those before the first page
/// that got no frame, write buffer or answer. Pages behind it may be written. If it is the first:
///   -EBADF not open for writing | -EFAULT null `buf` | -EINVAL `offset` < 0, small group
///   -EFBIG beyond 2^48
///   -ENOMEM for config::rpc_timeout_ms all frames stayed pinned, or all write buffers held pages
///   that the host cannot write
///   -ETIMEDOUT no answer in time | -EIO daemon stopped
///   the error of a fetch, for a page written in part
///   the error of an earlier write that gfsync or the last gclose has not reported yet
template <class Group>
[[nodiscard]] __device__ ssize_t gwrite(io_context<Group>& io, int fd, void const* buf,
                                        std::size_t count, std::int64_t offset);

/// Writes the file's dirty pages to the host file and makes them durable, as fsync(2) does.
/// Covers every gwrite that returned before the call. All threads of the group call.
/// Pages that could not be written stay dirty, and the next gfsync tries again.
///
/// Returns 0, or the first error since the last gfsync of the file. It is reported once. Only an
/// error of fdatasync(2) is reported by each call until the file is closed for writing.
///   -EBADF not open | -ETIMEDOUT not done in time (the daemon goes on)
///   -EAGAIN too many requests wait for answers (nothing was begun: call again)
///   -ENOSPC | -EDQUOT | -EFBIG | -EIO | another errno of the host's write
template <class Group>
[[nodiscard]] __device__ int gfsync(io_context<Group>& io, int fd);

/// Sets the size of a file open for writing, in bytes. Bytes beyond the new end are gone; bytes
/// that the file gains are zeros. All threads of the group call.
///
/// The host file then has the bytes of all earlier gwrites. The call waits for gwrites under way
/// and holds up new ones. Once the host has begun its ftruncate(2), the call waits for the end of
/// that, whatever config::rpc_timeout_ms.
///
/// Returns 0, or
///   -EBADF not open | -EINVAL not open for writing, `size` < 0 | -EFBIG beyond 2^48 - 1
///   -ETIMEDOUT not done in time, and not later | -EIO daemon stopped | -ENOMEM
///   an error of ftruncate(2)
///   the error of writing pages before the new end (nothing is truncated then)
template <class Group>
[[nodiscard]] __device__ int gftruncate(io_context<Group>& io, int fd, std::int64_t size);

/// Removes the name `path`, as unlink(2) does. Open descriptors keep the file.
/// All threads of the group call. Once the host has begun its unlink(2), the call waits for the end
/// of that, whatever config::rpc_timeout_ms.
///
/// Returns 0, or
///   -EINVAL a block file | an error of unlink(2) | -ENAMETOOLONG
///   -ETIMEDOUT not done in time, and not later | -EIO daemon stopped
template <class Group>
[[nodiscard]] __device__ int gunlink(io_context<Group>& io, char const* path);

/// Pins the page that holds byte `offset` and stores a pointer to that byte in `*address`.
/// All threads of the group call, each with an `address` of its own.
///
/// The page keeps its place until gmunmap. Any block and later kernels may use the pointer, and any
/// group may unmap it. filesystem::unreleased() lists pages that were never unmapped.
///
/// @param protection  PROT_READ, or PROT_READ | PROT_WRITE on an O_RDWR descriptor
/// Every block's gread sees stores through the pointer at once. The host file gets them after a
/// gmsync, and only the bytes that it names.
///
/// Returns bytes mapped: `count`, or fewer up to the end of the page or file, 0 at or beyond the
/// end of the file, or
///   -EBADF not open | -EFAULT null `address` | -EACCES protection not allowed by `fd`
///   -EINVAL another protection, `offset` < 0, `count` == 0, small group
///   -ENOMEM all frames stayed pinned for config::rpc_timeout_ms, or 2^20 mappings of the page
///   an error of gread()
template <class Group>
[[nodiscard]] __device__ ssize_t gmmap(io_context<Group>& io, int fd, std::size_t count,
                                       std::int64_t offset, int protection, void** address);

/// Undoes one gmmap of the page that holds `address`. All threads of the group call.
/// Begins with a group barrier. Other users of the pointer must have stopped using it.
///
/// Returns 0, or -EINVAL nothing is mapped there.
template <class Group>
__device__ int gmunmap(io_context<Group>& io, void const* address);

/// Writes `count` stored bytes at `address` to the file, as a gwrite of them does.
/// They lie in one page that gmmap has mapped from `fd`. Bytes beside them are not written, so
/// writers of different bytes of a page all survive.
///
/// All threads of the group call. Begins with a group barrier.
/// @param flags  MS_ASYNC, or MS_SYNC: the bytes are durable on return
///
/// Returns 0, or
///   -EBADF not open | -EACCES not O_RDWR | -ESTALE the file has another version than was mapped
///   -EINVAL other flags, not mapped, beyond the page's end | an error of gwrite() or gfsync()
template <class Group>
[[nodiscard]] __device__ int gmsync(io_context<Group>& io, int fd, void const* address,
                                    std::size_t count, int flags);

/// Stores size, times and identity of an open file, as the host sees them now, in `*status`.
/// The size includes bytes of gwrites that the host file lacks.
/// All threads of the group call, each with a `status` of its own, not null.
///
/// Returns 0, or
///   -EBADF not open | an error of fstat(2) | -ETIMEDOUT no answer in time | -EIO daemon stopped
template <class Group>
[[nodiscard]] __device__ int gfstat(io_context<Group>& io, int fd, file_status* status);

/// Stores what kernels have done through `fd` since it was opened in `*counts`;
/// gpufs::file_statistics says what counts. All threads of the group call, each with `counts` of
/// its own, not null.
///
/// Callers may count meanwhile. Makes no request, unless the file is written and has a new version.
///
/// Returns 0, or
///   -EBADF not open | -EINVAL small group | -EOPNOTSUPP config::file_counters is off
///   -ETIMEDOUT, -EIO the new version could not be had, as gread()
template <class Group>
[[nodiscard]] __device__ int gfstats(io_context<Group>& io, int fd, file_statistics* counts);

/// Says how the bytes [offset, offset + length) of `fd` will be used. Length 0 means up to the end
/// of the file. All threads of the group call.
///
/// normal, random, sequential: concern the descriptor and all that have opened it, whatever the
/// range. The latest advice holds until the last gclose. All contexts follow it from their next
/// miss on, and so does the host's own readahead.
///
/// random: a request covers the missed bytes and no others, whatever config::prefetch_size. With
/// io_path auto, file windows are registered as they are read, and stay registered whatever is said
/// later (config::path). Files that are written are not registered.
///
/// sequential: a context's first read of the file counts as the continuation of a sequential one.
/// The automatic readahead depth is at its limit at once.
///
/// willneed: the group brings the range's pages into the cache before it returns. If the cache has
/// fewer frames, it brings in as many pages, from the first on.
///
/// dontneed: unpinned pages that lie wholly in the range leave the cache. The OS page cache is left
/// alone; filesystem::advise() drops bytes from it.
///
/// Returns 0, or
///   -EBADF not open | -EINVAL another advice, `offset` or `length` < 0, small group
///   -ETIMEDOUT no answer in time | -EIO daemon stopped | willneed: an error of gread()
template <class Group>
__device__ int gfadvise(io_context<Group>& io, int fd, std::int64_t offset, std::int64_t length,
                        advice what);

}  // namespace gpufs

#include <gpufs/async.hpp>
#include <gpufs/io/advise.hpp>
#include <gpufs/io/file_counts.hpp>
#include <gpufs/io/io_context.hpp>
#include <gpufs/io/map.hpp>
#include <gpufs/io/open.hpp>
#include <gpufs/io/read/read.hpp>
#include <gpufs/io/sync.hpp>
#include <gpufs/io/write/write.hpp>
