// Waiting for kernels as the CUDA calls do that free memory.
#pragma once

namespace gpufs::emulated {

/// Waits for all that has been put on streams so far, failed or not; failures stay where they are.
void wait_for_launches();

}  // namespace gpufs::emulated
