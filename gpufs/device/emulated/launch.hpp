// Launching kernels on the emulated device.
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

/// Runs `kernel` with copies of the arguments, asynchronously, on `options.on`. Throws device_error
/// if the grid or the block is empty, the block has more than 1024 threads or more shared memory
/// than the device allows. Failures of the kernel itself are reported by stream::synchronize(). The
/// grid's blocks are dispatched in order to at most settings::blocks resident ones (each kernel has
/// so many of its own).
template <class... Parameters, class... Arguments>
void launch(launch_options const& options, void (*kernel)(Parameters...),
            Arguments&&... arguments) {
  static_assert(sizeof...(Parameters) == sizeof...(Arguments),
                "launch: as many arguments as the kernel has parameters");
  emulated::enqueue_launch(options, [kernel, stored = std::tuple<std::decay_t<Parameters>...>(
                                                 std::forward<Arguments>(arguments)...)] {
    // Each thread has parameters of its own, as on the GPU.
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

/// Loads a kernel's code onto the device, which must have happened before anything waits on a
/// running kernel. Nothing to do here.
template <class... Parameters>
void load_kernel(void (*)(Parameters...)) {}

}  // namespace gpufs
