#include <gpufs/device.hpp>

#include <apps/bench/managed_sum.hpp>

namespace gpufs::apps {

namespace {

__global__ void __launch_bounds__(256)
    add_words(std::uint64_t const* words, std::uint64_t count, std::uint64_t* total) {
  std::uint64_t sum = 0;
  std::uint64_t const step = std::uint64_t{gridDim.x} * blockDim.x;
  for (std::uint64_t i = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += step)
    sum += words[i];
  atomic_ref<std::uint64_t, scope::device>(*total).fetch_add(sum, memory_order_relaxed);
}

}  // namespace

std::uint64_t sum_on_device(std::byte const* data, std::uint64_t bytes) {
  buffer<std::uint64_t> total(1);
  total.fill_zero();
  launch(add_words, 8 * current_device().multiprocessors, 256,
         reinterpret_cast<std::uint64_t const*>(data), bytes / 8, total.data());
  synchronize();
  std::uint64_t sum = 0;
  total.copy_to_host(&sum, 1);
  return sum;
}

}  // namespace gpufs::apps
