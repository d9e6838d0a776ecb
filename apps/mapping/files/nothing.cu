#include <apps/mapping/files/nothing.hpp>

namespace gpufs::apps::workloads {

namespace {

__global__ void nothing() {}

}  // namespace

void launch_nothing(shared_call& call) {
  launch(call, nothing, 1, 32);
  call.on().synchronize();
}

void launch_nothing() {
  launch(nothing, 1, 32);
  this_thread_stream().synchronize();
}

}  // namespace gpufs::apps::workloads
