// Launches kernels on the emulated device.
#pragma once

#include <functional>
#include <tuple>
#include <type_traits>
#include <utility>

namespace gpufs {

namespace emulated {
/// Queues a launch whose threads each call `thread_body`. Throws device_error if the options are
/// out of bounds.
void enqueue_launch(launch_options const& options, std::function<void()> thread_body);
}  // namespace emulated

/// Runs `kernel` with copies of the arguments on `options.on`, asynchronously. Throws device_error
/// if grid or block is empty or too large, or if it asks for too much shared memory. Failures of
/// the kernel come from stream::synchronize(). Blocks start in order. At most settings::blocks
/// blocks of each kernel are resident.
template <class... Parameters, class... Arguments>
void launch(launch_options const& options, void (*kernel)(Parameters...),
            Arguments&&... arguments) {
  static_assert(sizeof...(Parameters) == sizeof...(Arguments),
                "launch: as many arguments as the kernel has parameters");
  emulated::enqueue_launch(options, [kernel, stored = std::tuple<std::decay_t<Parameters>...>(
                                                 std::forward<Arguments>(arguments)...)] {
    // Each thread has its own parameters, as on the GPU.
    std::apply([kernel](auto const&... each) { kernel(std::decay_t<decltype(each)>(each)...); },
               stored);
  });
}

/// The same on this_thread_stream().
template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, Arguments&&... arguments) {
  launch(launch_options{.grid = grid, .block = block}, kernel,
         std::forward<Arguments>(arguments)...);
}

/// CUDA loads a kernel's code onto the device here. The emulated device has no work to do.
template <class... Parameters>
void load_kernel(void (*)(Parameters...)) {}

}  // namespace gpufs
