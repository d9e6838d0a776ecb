// Ways in which the kernels of `gpufs bench` have a request's bytes delivered to their buffer. Collective over the context's group; they
// return the bytes delivered, or -errno.
#pragma once

#include <gpufs/gpufs.hpp>

#include <apps/gpufs/access_plan.hpp>

#include <cstddef>
#include <cstdint>

#include <sys/types.h>

namespace gpufs::apps {

#if defined(__CUDACC__) || defined(GPUFS_EMULATED)

struct by_gread {
  template <class Group>
  __device__ __forceinline__ static ssize_t deliver(io_context<Group>& io, int fd, std::byte* to, access const& a) {
    return gread(io, fd, to, a.bytes, static_cast<std::int64_t>(a.offset));
  }
};

#endif

}  // namespace gpufs::apps
