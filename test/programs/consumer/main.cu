// A user of the installed package: one kernel that reads a file, block by block, and adds up its
// bytes.
#include <gpufs/gpufs.hpp>

#include <cstdint>
#include <cstdio>
#include <exception>
#include <fstream>
#include <iterator>
#include <string>

namespace {

struct answer {
  unsigned long long sum;
  int error;
};

__global__ void add_up(gpufs::fs_ref fs, int fd, answer* result) {
  __shared__ unsigned char chunk[4096];
  auto block = cooperative_groups::this_thread_block();
  gpufs::io_context io(fs, block);
  for (std::int64_t offset = std::int64_t(blockIdx.x) * sizeof(chunk);;
       offset += std::int64_t(gridDim.x) * sizeof(chunk)) {
    auto const got = gpufs::gread(io, fd, chunk, sizeof(chunk), offset);
    if (got < 0) result->error = int(got);
    if (got <= 0) return;
    unsigned long long sum = 0;
    for (auto i = threadIdx.x; i < got; i += blockDim.x) sum += chunk[i];
    atomicAdd(&result->sum, sum);
    block.sync();
  }
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 2) return std::fputs("usage: consumer FILE\n", stderr), 2;
  gpufs::filesystem fs;
  int const fd = fs.open(argv[1], O_RDONLY);
  if (fd < 0) return std::fprintf(stderr, "%s: error %d\n", argv[1], -fd), 1;

  gpufs::buffer<answer> result(1);
  result.fill_zero();
  gpufs::launch(add_up, 4, 64, fs.ref(), fd, result.data());
  gpufs::synchronize();
  answer got{};
  result.copy_to_host(&got, 1);

  unsigned long long expected = 0;
  std::ifstream file(argv[1], std::ios::binary);
  for (auto i = std::istreambuf_iterator<char>(file); i != std::istreambuf_iterator<char>(); ++i) {
    expected += static_cast<unsigned char>(*i);
  }
  std::printf("%s: sum of bytes %llu on the device, %llu on the host, error %d\n", argv[1], got.sum,
              expected, got.error);
  return got.error == 0 && got.sum == expected ? 0 : 1;
} catch (std::exception const& error) {
  std::fprintf(stderr, "consumer: %s\n", error.what());
  return 1;
}
