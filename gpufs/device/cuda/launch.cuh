// Launches kernels on a GPU.
#pragma once

#include <tuple>
#include <type_traits>
#include <utility>

namespace gpufs {

namespace cuda_device {
// Untyped halves of launch() and load_kernel(), in streams.cpp. `arguments` points to pointers to
// the kernel's parameters.
void launch_kernel(launch_options const& options, void const* kernel, void** arguments);
void load_kernel(void const* kernel);
}  // namespace cuda_device

/// Runs `kernel` with copies of the arguments on `options.on`, asynchronously. Throws device_error
/// if CUDA refuses the launch or reports an earlier failure. stream::synchronize() reports failures
/// of the kernel.
template <class... Parameters, class... Arguments>
void launch(launch_options const& options, void (*kernel)(Parameters...),
            Arguments&&... arguments) {
  static_assert(sizeof...(Parameters) == sizeof...(Arguments),
                "launch: as many arguments as the kernel has parameters");
  std::tuple<std::decay_t<Parameters>...> values(std::forward<Arguments>(arguments)...);
  std::apply(
      [&](auto&... each) {
        // One more than needed, since an array may not be empty.
        void* pointers[] = {const_cast<void*>(static_cast<void const*>(&each))..., nullptr};
        cuda_device::launch_kernel(options, reinterpret_cast<void const*>(kernel), pointers);
      },
      values);
}

/// The same on this_thread_stream().
template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, Arguments&&... arguments) {
  launch(launch_options{.grid = grid, .block = block}, kernel,
         std::forward<Arguments>(arguments)...);
}

/// Loads a kernel's code onto the device. Call it before any code waits for a running kernel:
/// CUDA's lazy loading may itself wait for running kernels. Throws device_error. gpufs sets
/// CUDA_MODULE_LOADING to EAGER if the environment has no value, so modules are loaded at program
/// start.
template <class... Parameters>
void load_kernel(void (*kernel)(Parameters...)) {
  cuda_device::load_kernel(reinterpret_cast<void const*>(kernel));
}

}  // namespace gpufs
