// Launching kernels on a GPU.
#pragma once

#include <tuple>
#include <type_traits>
#include <utility>

namespace gpufs {

namespace cuda_device {
// Untyped halves of launch() and load_kernel(), in streams.cpp. `arguments` point to the values of
// the kernel's parameters.
void launch_kernel(launch_options const& options, void const* kernel, void** arguments);
void load_kernel(void const* kernel);
}  // namespace cuda_device

/// Runs `kernel` with copies of the arguments, asynchronously, on `options.on`. Throws device_error
/// if CUDA refuses the launch, or an earlier failure surfaces. Failures of the kernel itself are
/// reported by stream::synchronize().
template <class... Parameters, class... Arguments>
void launch(launch_options const& options, void (*kernel)(Parameters...),
            Arguments&&... arguments) {
  static_assert(sizeof...(Parameters) == sizeof...(Arguments),
                "launch: as many arguments as the kernel has parameters");
  std::tuple<std::decay_t<Parameters>...> values(std::forward<Arguments>(arguments)...);
  std::apply(
      [&](auto&... each) {
        // One more than needed: an array may not be empty.
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

/// Loads a kernel's code onto the device, which must have happened before anything waits on a
/// running kernel: CUDA's lazy loading may itself wait for running kernels. Throws device_error.
/// Modules are loaded whole at program start unless CUDA_MODULE_LOADING says otherwise: gpufs sets
/// it to EAGER if the environment does not have it.
template <class... Parameters>
void load_kernel(void (*kernel)(Parameters...)) {
  cuda_device::load_kernel(reinterpret_cast<void const*>(kernel));
}

}  // namespace gpufs
