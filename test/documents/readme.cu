// The fragments of README.md, in functions around them. They are compiled, never run.
#include <gpufs/cli.hpp>
#include <gpufs/gpufs.hpp>
#include <gpufs/mapping.hpp>

#include <CLI/CLI.hpp>

namespace {

__global__ void scale(float const* in, float* out, long n, float f) {
  for (long i = blockIdx.x * long(blockDim.x) + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    out[i] = in[i] * f;
}

}  // namespace

int maps_files(long n);
int maps_files(long n) {
#include "mapped_files.inc"
  return error;
}

int takes_settings(int argc, char** argv);
int takes_settings(int argc, char** argv) {
#include "cli_settings.inc"
  return fs.ref().self == nullptr ? 1 : 0;
}
