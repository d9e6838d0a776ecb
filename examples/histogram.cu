// Counts how often each byte value occurs in a file: histogram FILE. Blocks take chunks in turn.
#include <gpufs/gpufs.hpp>

#include <cstdio>
#include <cstring>
#include <exception>

struct counts {
  unsigned long long of[256];
  int error;
};

__global__ void count_bytes(gpufs::fs_ref fs, int fd, counts* to) {
  __shared__ unsigned char chunk[16384];
  __shared__ unsigned mine[256];
  auto const block = cooperative_groups::this_thread_block();
  gpufs::io_context io(fs, block);
  for (unsigned v = threadIdx.x; v < 256; v += blockDim.x) mine[v] = 0;
  std::int64_t const step = std::int64_t(gridDim.x) * sizeof chunk;
  for (std::int64_t at = blockIdx.x * std::int64_t(sizeof chunk);; at += step) {
    auto const got = gpufs::gread(io, fd, chunk, sizeof chunk, at);
    if (got < 0 && threadIdx.x == 0) atomicMin(&to->error, int(got));
    if (got <= 0) break;  // the same for all threads of the block
    for (std::int64_t i = threadIdx.x; i < got; i += blockDim.x) atomicAdd(&mine[chunk[i]], 1u);
    block.sync();  // before the next read overwrites the chunk
  }
  block.sync();
  for (unsigned v = threadIdx.x; v < 256; v += blockDim.x)
    if (mine[v] != 0) atomicAdd(&to->of[v], static_cast<unsigned long long>(mine[v]));
}

int main(int argc, char** argv) try {
  if (argc != 2) return std::fputs("usage: histogram FILE\n", stderr), 2;
  gpufs::filesystem fs;
  int const fd = fs.open(argv[1], O_RDONLY);
  if (fd < 0) return std::fprintf(stderr, "%s: %s\n", argv[1], std::strerror(-fd)), 1;
  gpufs::buffer<counts> result(1);
  result.fill_zero();
  gpufs::launch(count_bytes, 16, 256, fs.ref(), fd, result.data());
  gpufs::synchronize();
  counts got{};
  result.copy_to_host(&got, 1);
  if (got.error != 0) return std::fprintf(stderr, "read: %s\n", std::strerror(-got.error)), 1;
  for (int v = 0; v < 256; ++v)
    if (got.of[v] != 0) std::printf("%3d %llu\n", v, got.of[v]);
} catch (std::exception const& e) {
  return std::fprintf(stderr, "%s\n", e.what()), 1;
}
