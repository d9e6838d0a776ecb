// The kernel calls of io_uring's set-up that may be refused, as functions, so that tests can refuse them.
#pragma once

#include <functional>

struct io_uring;
struct iovec;

namespace gpufs::daemon {

/// Empty members mean the real call. All return 0 or -errno, as liburing does.
struct io_hooks {
  std::function<int(unsigned entries, ::io_uring* ring, unsigned flags)> set_up_ring;
  std::function<int(::io_uring* ring, ::iovec const* pieces, unsigned count)> register_buffers;
  std::function<int(::io_uring* ring, unsigned count)> register_files;
};

}  // namespace gpufs::daemon
