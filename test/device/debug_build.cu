// Kernels that debug_build.sh compiles for a debugger: each way to use a file from device code that
// makes a far_call().
#include <gpufs/gpufs.hpp>

#include <cstdint>

#include <cooperative_groups.h>

namespace cg = cooperative_groups;

__global__ void read_and_write(gpufs::fs_ref fs, int fd, int* buffer, std::int64_t* result) {
  gpufs::io_context io(fs, cg::this_thread_block());
  result[0] = gpufs::gread(io, fd, buffer, sizeof(int), 0);
  result[1] = gpufs::gwrite(io, fd, buffer, sizeof(int), 0);
}

__global__ void load_elements(gpufs::fs_ref fs, int fd, double* sums) {
  gpufs::io_context io(fs, cg::this_thread_block());
  gpufs::array<double const> const elements(io, fd);
  auto const held = elements.pointer(threadIdx.x);
  sums[threadIdx.x] = elements[threadIdx.x] + held[threadIdx.x];
}

__global__ void store_elements(gpufs::fs_ref fs, int fd) {
  gpufs::io_context io(fs, cg::this_thread_block());
  gpufs::array<double> const elements(io, fd);
  elements[threadIdx.x] = 1;
  auto const writer = elements.writer(threadIdx.x);
  writer[threadIdx.x] = 2;
}
