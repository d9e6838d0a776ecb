// The C interface of the host side: a filesystem, its files, its counters. For C programs, and for
// languages that call C. Kernels get the handle that gpufs_ref() copies.
//
// Unless a function says otherwise, it returns 0 or a count on success and -errno on failure, and
// any thread may call it. gpufs_last_error() then says what was wrong and what would be right.
//
// In a child of fork() a filesystem cannot be used: the calls return -EPERM, and gpufs_destroy()
// frees nothing. Link with the C++ compiler, as the library is C++ within.
#pragma once

#include <stddef.h>
#include <stdint.h>

#if defined(__cplusplus)
extern "C" {
#endif

/// A page cache in GPU memory and the threads that serve it, as gpufs::filesystem.
typedef struct gpufs_filesystem gpufs_filesystem;

/// Advice for gpufs_advise(), numbered as POSIX_FADV_*; <gpufs/advice.hpp> says what each does.
enum gpufs_advice {
  GPUFS_ADVICE_NORMAL = 0,
  GPUFS_ADVICE_RANDOM = 1,
  GPUFS_ADVICE_SEQUENTIAL = 2,
  GPUFS_ADVICE_WILLNEED = 3,
  GPUFS_ADVICE_DONTNEED = 4
};

/// Makes a filesystem on the current device and stores it in `*made`; on failure null.
///
/// `settings` has a setting per line, as `page_size = 64K`; values may stand in double quotes. `#`
/// outside them begins a comment. Null or empty: the defaults. As in C++, gpufs.toml and GPUFS_*
/// variables override these values.
///
/// Returns 0, or
///   -EFAULT `made` is null | -EINVAL a wrong line or setting | -ENODEV no device
///   -ENOMEM | -EIO the device failed | -errno as thrown by the system
int gpufs_create(char const* settings, gpufs_filesystem** made);

/// Writes all dirty pages to their files and frees everything. No kernel that uses `fs` may be
/// running, and no other call. Null: does nothing. `fs` is freed whatever is returned.
///
/// Returns 0, or -EIO some bytes could not be written and are lost | -ETIMEDOUT the same, without
/// progress for ten seconds. Lists these bytes on stderr.
int gpufs_destroy(gpufs_filesystem* fs);

/// Opens a regular file for kernels and for the calls below. `flags` and `mode` are as for gopen().
/// A descriptor with O_APPEND is for appends in kernels; gpufs_write() returns -EOPNOTSUPP.
/// Returns a descriptor > 0, or
///   -EFAULT a null pointer | -EPERM a child of fork() | an error of gopen()
int gpufs_open(gpufs_filesystem* fs, char const* path, int flags, unsigned mode);

/// Closes `fd` once. The last close of a written file writes its dirty pages to the host file.
/// Returns 0, or
///   -EFAULT null `fs` | -EPERM a child of fork() | -EBADF not open
///   the error of the write-back (`fd` is closed all the same)
int gpufs_close(gpufs_filesystem* fs, int fd);

/// The bytes of an open file now, with those of gwrites that the host file lacks.
/// Returns the size, or
///   -EFAULT null `fs` | -EPERM a child of fork() | an error of gpufs::filesystem::stat()
int64_t gpufs_size(gpufs_filesystem* fs, int fd);

/// Reads `count` bytes from byte `offset` into host memory, after the kernels' dirty pages.
/// Returns bytes read: fewer at the end of the file, or
///   -EFAULT a null pointer | -EPERM a child of fork() | an error of gpufs::filesystem::read()
int64_t gpufs_read(gpufs_filesystem* fs, int fd, void* bytes, uint64_t count, int64_t offset);

/// Writes `count` bytes from host memory to byte `offset`, after the kernels' dirty pages. All
/// blocks see them after a kernel's next gopen of the file. A new io_context sees them itself.
/// Returns bytes written, or
///   -EFAULT a null pointer | -EPERM a child of fork() | an error of gpufs::filesystem::write()
int64_t gpufs_write(gpufs_filesystem* fs, int fd, void const* bytes, uint64_t count,
                    int64_t offset);

/// Writes the dirty pages of `fd` and makes them durable. `fd` < 0: writes those of all files, not
/// durably.
/// Returns 0, or
///   -EFAULT null `fs` | -EPERM a child of fork() | an error of gpufs::filesystem::sync()
int gpufs_sync(gpufs_filesystem* fs, int fd);

/// Says how bytes [offset, offset + length) will be used. Length 0: up to the end of the file.
/// Returns 0, or
///   -EFAULT null `fs` | -EPERM a child of fork() | -EBADF not open | -EINVAL another advice,
///   `offset` or `length` < 0
int gpufs_advise(gpufs_filesystem* fs, int fd, int64_t offset, int64_t length, int advice);

/// Bytes of a gpufs::fs_ref, the argument that kernels take.
size_t gpufs_ref_size(void);

/// Copies the gpufs::fs_ref of `fs` to `bytes`, of which there are `size`. Kernels may use it while
/// `fs` lives.
/// Returns 0, or
///   -EFAULT a null pointer | -EPERM a child of fork() | -EINVAL `size` is not gpufs_ref_size()
int gpufs_ref(gpufs_filesystem* fs, void* bytes, size_t size);

/// The address of the same gpufs::fs_ref in GPU memory, for kernels that take a pointer. Null: `fs`
/// is null, or of a parent process.
void const* gpufs_ref_address(gpufs_filesystem* fs);

/// Stores the counters as a JSON object in `text`: at most `size` bytes with the final NUL, cut if
/// they do not fit. `text` may be null if `size` is 0.
///
/// Returns the length of the whole text without its NUL, as snprintf(3), or
///   -EFAULT a null pointer | -EPERM a child of fork() | -ENOMEM
int64_t gpufs_stats(gpufs_filesystem* fs, char* text, size_t size);

/// What the calling thread's last failed call has to say. It stays until the thread's next failed
/// call. Never null; empty: no call has failed.
char const* gpufs_last_error(void);

/// The device that this library was built for: "cuda" or "emulated".
char const* gpufs_device_kind(void);

#if defined(__cplusplus)
}  // extern "C"
#endif
