// Gathers elements of a file by an index that lies in another file: array_gather VALUES INDEX. Both
// hold 64-bit integers. Each thread follows its own index, as with plain arrays.
#include <gpufs/gpufs.hpp>

#include <cstdio>
#include <cstring>
#include <exception>

using number = unsigned long long;

struct answer {
  number sum, elements;
  int error;
};

__global__ void gather(gpufs::fs_ref fs, int values_fd, int index_fd, answer* to) {
  gpufs::io_context io(fs, cooperative_groups::this_thread_block());
  gpufs::array<number const> const values(io, values_fd), index(io, index_fd);
  number sum = 0, elements = 0;
  number const threads = number(gridDim.x) * blockDim.x;
  for (number i = number(blockIdx.x) * blockDim.x + threadIdx.x; i < index.size(); i += threads) {
    sum += values[index[i]];
    ++elements;
  }
  atomicAdd(&to->sum, sum);
  atomicAdd(&to->elements, elements);
  int const error = values.error() != 0 ? values.error() : index.error();
  if (error != 0) atomicMin(&to->error, error);  // -ERANGE: an index beyond the end
}

int main(int argc, char** argv) try {
  if (argc != 3) return std::fputs("usage: array_gather VALUES INDEX\n", stderr), 2;
  gpufs::filesystem fs;
  int fds[2];
  for (int i : {0, 1}) {
    fds[i] = fs.open(argv[i + 1], O_RDONLY);
    if (fds[i] < 0) return std::fprintf(stderr, "%s: %s\n", argv[i + 1], std::strerror(-fds[i])), 1;
  }
  gpufs::buffer<answer> result(1);
  result.fill_zero();
  gpufs::launch(gather, 16, 128, fs.ref(), fds[0], fds[1], result.data());
  gpufs::synchronize();
  answer got{};
  result.copy_to_host(&got, 1);
  if (got.error != 0) return std::fprintf(stderr, "read: %s\n", std::strerror(-got.error)), 1;
  std::printf("%llu elements, sum %llu\n", got.elements, got.sum);
} catch (std::exception const& e) {
  return std::fprintf(stderr, "%s\n", e.what()), 1;
}
