// Where the linker leads a program's own launches, if it asks for that by gpufs_wrap_launches() of
// CMake. A plain launch uses all objects, as one by gpufs::launch() does.
//
// The linker leads the library's launches here, too: they have been handed what they use.
#include <gpufs/device/launch_observer.hpp>
#include <gpufs/mapping/quiet_lock.hpp>
#include <gpufs/owner/cuda/wrapped_calls.hpp>

#include <cstddef>
#include <exception>
#include <memory>

namespace gpufs::owner {

// The true functions have these names for the linker.
extern "C" {
cudaError_t __real_cudaLaunchKernel(void const*, dim3, dim3, void**, std::size_t, cudaStream_t);
cudaError_t __real_cudaLaunchKernel_ptsz(void const*, dim3, dim3, void**, std::size_t,
                                         cudaStream_t);
cudaError_t __real_cudaLaunchCooperativeKernel(void const*, dim3, dim3, void**, std::size_t,
                                               cudaStream_t);
cudaError_t __real_cudaLaunchCooperativeKernel_ptsz(void const*, dim3, dim3, void**, std::size_t,
                                                    cudaStream_t);
cudaError_t __real_cudaLaunchKernelExC(cudaLaunchConfig_t const*, void const*, void**);
cudaError_t __real_cudaLaunchKernelExC_ptsz(cudaLaunchConfig_t const*, void const*, void**);
#if CUDART_VERSION >= 13000
// What <<<>>> is compiled to.
cudaError_t __real___cudaLaunchKernel(cudaKernel_t, dim3, dim3, void**, std::size_t, cudaStream_t);
cudaError_t __real___cudaLaunchKernel_ptsz(cudaKernel_t, dim3, dim3, void**, std::size_t,
                                           cudaStream_t);
#endif
}

namespace {

// `launch` takes the grid. Nobody looks at what a launch by <<<>>> returns. So a launch that cannot
// have its objects is made without threads: CUDA refuses that, and cudaGetLastError() tells.
template <class Launch>
cudaError_t launch_with_objects(cudaStream_t on, dim3 grid, Launch const& launch) {
  // Pairs with the store where the first shared_memory is made.
  if (device::observer.load(std::memory_order_acquire) == nullptr || shared::is_declared())
    return launch(grid);
  try {
    stream where = stream::of(on);
    auto const observed = device::observe_launch(where);
    return launch(grid);
  } catch (std::exception const& why) {
    say_refused("a launch", why);
    return launch(dim3(0, 0, 0));
  }
}

template <class Real>
cudaError_t launch_as_configured(Real const& real, cudaStream_t on, cudaLaunchConfig_t const* how,
                                 void const* kernel, void** arguments) {
  return launch_with_objects(on, how->gridDim, [&](dim3 grid) {
    cudaLaunchConfig_t changed = *how;
    changed.gridDim = grid;
    return real(&changed, kernel, arguments);
  });
}

}  // namespace

extern "C" {

#define GPUFS_WRAP_LAUNCH(name, type, stream_of)                                  \
  cudaError_t __wrap_##name(type kernel, dim3 grid, dim3 block, void** arguments, \
                            std::size_t shared_bytes, cudaStream_t on) {          \
    return launch_with_objects(stream_of(on), grid, [&](dim3 g) {                 \
      return __real_##name(kernel, g, block, arguments, shared_bytes, on);        \
    });                                                                           \
  }
#define GPUFS_SAME_STREAM(on) on

GPUFS_WRAP_LAUNCH(cudaLaunchKernel, void const*, GPUFS_SAME_STREAM)
GPUFS_WRAP_LAUNCH(cudaLaunchKernel_ptsz, void const*, of_thread)
GPUFS_WRAP_LAUNCH(cudaLaunchCooperativeKernel, void const*, GPUFS_SAME_STREAM)
GPUFS_WRAP_LAUNCH(cudaLaunchCooperativeKernel_ptsz, void const*, of_thread)
#if CUDART_VERSION >= 13000
GPUFS_WRAP_LAUNCH(__cudaLaunchKernel, cudaKernel_t, GPUFS_SAME_STREAM)
GPUFS_WRAP_LAUNCH(__cudaLaunchKernel_ptsz, cudaKernel_t, of_thread)
#endif

cudaError_t __wrap_cudaLaunchKernelExC(cudaLaunchConfig_t const* how, void const* kernel,
                                       void** arguments) {
  if (how == nullptr) return __real_cudaLaunchKernelExC(how, kernel, arguments);
  return launch_as_configured(__real_cudaLaunchKernelExC, how->stream, how, kernel, arguments);
}
cudaError_t __wrap_cudaLaunchKernelExC_ptsz(cudaLaunchConfig_t const* how, void const* kernel,
                                            void** arguments) {
  if (how == nullptr) return __real_cudaLaunchKernelExC_ptsz(how, kernel, arguments);
  return launch_as_configured(__real_cudaLaunchKernelExC_ptsz, of_thread(how->stream), how, kernel,
                              arguments);
}

#undef GPUFS_WRAP_LAUNCH
#undef GPUFS_SAME_STREAM

}  // extern "C"

}  // namespace gpufs::owner
