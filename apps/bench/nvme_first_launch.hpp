// What must be over before a kernel is the controller.
#pragma once

#include <gpufs/base/warp.hpp>
#include <gpufs/device.hpp>

#include <apps/bench/nvme_commands.hpp>

namespace gpufs::apps {

/// Launches a kernel that sends no commands, and waits for it. The first launch may make room for
/// the stacks of its threads, and for that CUDA waits for all kernels that run.
/// Throws device_error.
template <class Plan>
void run_once_alone(void (*kernel)(Plan, command_report*), Plan plan, command_report* report) {
  plan.rounds = 0;
  launch(kernel, 1, base::warp_size, plan, report);
  this_thread_stream().synchronize();
}

}  // namespace gpufs::apps
