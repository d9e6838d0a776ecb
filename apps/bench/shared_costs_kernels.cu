#include <gpufs/device.hpp>
#include <gpufs/mapping.hpp>

#include <apps/bench/shared_costs_kernels.hpp>

namespace gpufs::apps {

namespace {

__global__ void __launch_bounds__(256) idle() {}

__global__ void __launch_bounds__(256)
    change(std::uint8_t* data, std::uint64_t count, std::uint64_t step) {
  std::uint64_t const stride = std::uint64_t{gridDim.x} * blockDim.x;
  for (std::uint64_t i = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count;
       i += stride)
    ++data[i * step];
}

}  // namespace

void launch_idle() { launch(idle, 1, 32); }

void change_each(std::byte* data, std::uint64_t bytes, std::uint64_t step) {
  launch(change, 32, 256, reinterpret_cast<std::uint8_t*>(data), bytes / step, step);
  this_thread_stream().synchronize();
}

}  // namespace gpufs::apps
