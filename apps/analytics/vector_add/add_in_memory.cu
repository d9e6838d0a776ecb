#include <apps/analytics/vector_add/add_in_memory.hpp>

namespace gpufs::apps::analytics {

namespace {

__global__ void __launch_bounds__(32 * most_warps)
    add(std::uint64_t const* a, std::uint64_t const* b, std::uint64_t* c, std::uint64_t elements) {
  std::uint64_t const step = std::uint64_t{gridDim.x} * blockDim.x;
  for (std::uint64_t i = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < elements;
       i += step) {
    c[i] = a[i] + b[i];
  }
}

}  // namespace

void add_in_memory(stream& on, launch_shape const& shape, std::uint64_t const* a,
                   std::uint64_t const* b, std::uint64_t* c, std::uint64_t elements) {
  launch({.grid = shape.blocks, .block = shape.threads, .on = &on}, add, a, b, c, elements);
}

void load_add_in_memory() { load_kernel(add); }

}  // namespace gpufs::apps::analytics
