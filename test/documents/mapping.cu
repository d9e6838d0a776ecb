// The fragments of docs/mapping.md, in functions around them. They are compiled, never run.
#include <gpufs/mapping.hpp>
#include <gpufs/mapping_windows.hpp>

#include <cstdint>

namespace {

__global__ void scale(float const* in, float* out, long n, float f) {
  for (long i = blockIdx.x * long(blockDim.x) + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    out[i] = in[i] * f;
}

}  // namespace

void declares(gpufs::mapping const& in, gpufs::mapping const& out, unsigned grid, unsigned block,
              long n);
void declares(gpufs::mapping const& in, gpufs::mapping const& out, unsigned grid, unsigned block,
              long n) {
#include "declared_launch.inc"
}

void has_a_name(gpufs::mapping const& in, gpufs::mapping const& out, unsigned grid, unsigned block,
                long n);
void has_a_name(gpufs::mapping const& in, gpufs::mapping const& out, unsigned grid, unsigned block,
                long n){
#include "profiled_launch.inc"
}

gpufs::mapping does_not_wait(gpufs::shared_memory& memory);
gpufs::mapping does_not_wait(gpufs::shared_memory& memory) {
#include "glimpses.inc"
  return progress;
}

void uses_both_kinds(gpufs::shared_memory& memory, gpufs::mapping const& in, unsigned grid,
                     unsigned block, long n);
void uses_both_kinds(gpufs::shared_memory& memory, gpufs::mapping const& in, unsigned grid,
                     unsigned block, long n) {
#include "managed_object.inc"
}

int maps(gpufs::shared_memory& memory, unsigned grid, unsigned block, long n);
int maps(gpufs::shared_memory& memory, unsigned grid, unsigned block, long n) {
#include "mapped_for_writing.inc"
  return error;
}

void has_budgets();
void has_budgets() {
#include "budgets.inc"
}

int goes_through_windows(gpufs::shared_memory& memory, gpufs::mapping& in, gpufs::mapping& out);
int goes_through_windows(gpufs::shared_memory& memory, gpufs::mapping& in, gpufs::mapping& out) {
#include "windows.inc"
  return error;
}

void moves_bytes(gpufs::shared_memory& memory, gpufs::mapping const& in, gpufs::mapping const& out,
                 int fd, std::uint64_t bytes);
void moves_bytes(gpufs::shared_memory& memory, gpufs::mapping const& in, gpufs::mapping const& out,
                 int fd, std::uint64_t bytes) {
#include "moved_bytes.inc"
}
