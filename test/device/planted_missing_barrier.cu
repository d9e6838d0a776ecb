// A planted bug: a kernel that lacks a __syncthreads. ThreadSanitizer must report a data race,
// whatever order the emulated threads happened to run in. With the argument `clean` the barrier is
// there, and the program must pass.
#include <gpufs/device.hpp>

#include <cstdio>
#include <cstring>

namespace {

template <bool Planted>
__global__ void sum_neighbours(int* out) {
  __shared__ int values[64];
  values[threadIdx.x] = int(threadIdx.x);
  if constexpr (!Planted) __syncthreads();
  out[threadIdx.x] = values[threadIdx.x] + values[(threadIdx.x + 1) % 64];
}

}  // namespace

int main(int argc, char** argv) {
  bool const clean = argc > 1 && std::strcmp(argv[1], "clean") == 0;
  gpufs::buffer<int> out(64);
  gpufs::launch(clean ? sum_neighbours<false> : sum_neighbours<true>, 1, 64, out.data());
  gpufs::synchronize();
  int first = 0;
  out.copy_to_host(&first, 1);
  std::printf("%s: first sum %d\n", clean ? "clean" : "planted", first);
  return clean && first != 1 ? 1 : 0;
}
