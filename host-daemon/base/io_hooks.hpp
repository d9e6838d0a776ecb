// System calls that the kernel may refuse, as functions. Tests replace them to refuse.
#pragma once

#include <cstdint>
#include <functional>

struct io_uring;
struct iovec;

namespace gpufs::daemon {

/// Stores how many pages of a range of a file are in the OS page cache. Returns 0 or -errno.
using cachestat_function = std::function<int(int fd, std::uint64_t offset, std::uint64_t length,
                                             std::uint64_t& cached_pages)>;

/// An empty member means the real call. All return 0 or -errno, as liburing does.
struct io_hooks {
  std::function<int(unsigned entries, ::io_uring* ring, unsigned flags)> set_up_ring;
  std::function<int(::io_uring* ring, ::iovec const* pieces, unsigned count)> register_buffers;
  std::function<int(::io_uring* ring, ::io_uring* source)> clone_buffers;
  std::function<int(::io_uring* ring, unsigned count)> register_files;
  cachestat_function cachestat;
};

}  // namespace gpufs::daemon
