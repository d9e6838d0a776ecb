// Turns a failed CUDA call into a device_error that names it.
#pragma once

#include <cuda_runtime_api.h>

namespace gpufs::cuda_device {

/// Throws device_error unless `result` is cudaSuccess. Its message has `call`, the error's name and
/// text.
void check(cudaError_t result, char const* call);

/// Returns true in a child of fork() whose parent had used CUDA. CUDA cannot be called there, so
/// all that the parent has made stays as it is. Every function that frees or destroys asks this.
[[nodiscard]] bool in_forked_child() noexcept;

}  // namespace gpufs::cuda_device
