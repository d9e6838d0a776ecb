// Waits for kernels, as CUDA calls that free memory do.
#pragma once

namespace gpufs::emulated {

/// Waits for all work put on streams so far, failed or not. Later calls still report the failures.
void wait_for_launches();

}  // namespace gpufs::emulated
