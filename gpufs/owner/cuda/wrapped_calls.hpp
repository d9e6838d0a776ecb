// What wrapped calls of CUDA have in common.
#pragma once

#include <gpufs/device.hpp>

#include <cstdio>
#include <exception>

#include <cuda_runtime_api.h>

namespace gpufs::owner {

/// The stream of a call that was compiled for default streams of each thread.
inline cudaStream_t of_thread(cudaStream_t on) { return on == nullptr ? cudaStreamPerThread : on; }

/// Objects cannot be had, for a reason that CUDA may not know.
inline void say_refused(char const* call, std::exception const& why) {
  std::fprintf(stderr, "gpufs: %s is refused: %s\n", call, why.what());
}

}  // namespace gpufs::owner
