// Turns a failed CUDA call into a device_error that names it.
#pragma once

#include <cuda_runtime_api.h>

namespace gpufs::cuda_device {

/// Throws device_error unless `result` is cudaSuccess. Its message has `call`, the error's name and
/// text.
void check(cudaError_t result, char const* call);

}  // namespace gpufs::cuda_device
