// Kernel calls that may be refused, as functions, so that tests can refuse them.
#pragma once

#include <cstdint>
#include <functional>

struct io_uring;
struct iovec;

namespace gpufs::daemon {

/// How many pages of a range of a file are in the OS page cache. 0 or -errno.
using cachestat_function = std::function<int(int fd, std::uint64_t offset, std::uint64_t length,
                                             std::uint64_t& cached_pages)>;

/// Empty members mean the real call. All return 0 or -errno, as liburing does.
struct io_hooks {
  std::function<int(unsigned entries, ::io_uring* ring, unsigned flags)> set_up_ring;
  std::function<int(::io_uring* ring, ::iovec const* pieces, unsigned count)> register_buffers;
  std::function<int(::io_uring* ring, unsigned count)> register_files;
  cachestat_function cachestat;
};

}  // namespace gpufs::daemon
