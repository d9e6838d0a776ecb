// Work behind kernels, and waits for kernels as CUDA calls that free memory do.
#pragma once

#include <gpufs/device.hpp>

#include <functional>

namespace gpufs::emulated {

/// Waits for all work put on streams so far, failed or not. Later calls still report the failures.
void wait_for_launches();

/// Runs `then` in the stream once the work that `on` has so far has ended, failed or not.
void when_done(stream& on, std::function<void()> then);

}  // namespace gpufs::emulated
