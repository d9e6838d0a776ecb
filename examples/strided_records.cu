// Adds up one field of every STEP-th record of a file: strided_records FILE [STEP]. A record has
// 256 bytes and begins with the field, a 32-bit integer. Each warp reads records of its own.
#include <gpufs/gpufs.hpp>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>

struct record {
  int field;
  char other[252];
};

struct answer {
  unsigned long long sum, records;
  int error;
};

__global__ void add_up(gpufs::fs_ref fs, int fd, long records, long step, answer* to) {
  __shared__ record mine[4];  // one for each warp of the block
  auto const warp =
      cooperative_groups::tiled_partition<32>(cooperative_groups::this_thread_block());
  gpufs::io_context io(fs, warp);
  record& r = mine[threadIdx.x / 32];
  long const warps = gridDim.x * 4l;
  for (long i = blockIdx.x * 4l + threadIdx.x / 32; i * step < records; i += warps) {
    auto const got = gpufs::gread(io, fd, &r, sizeof r, i * step * std::int64_t(sizeof r));
    if (warp.thread_rank() != 0) continue;
    if (got < 0) atomicMin(&to->error, int(got));
    if (got < std::int64_t(sizeof r)) continue;
    atomicAdd(&to->sum, static_cast<unsigned long long>(r.field));
    atomicAdd(&to->records, 1ull);
  }
}

int main(int argc, char** argv) try {
  if (argc < 2) return std::fputs("usage: strided_records FILE [STEP]\n", stderr), 2;
  long const step = argc > 2 ? std::atol(argv[2]) : 10;
  if (step < 1) return std::fputs("STEP must be at least 1\n", stderr), 2;
  gpufs::filesystem fs;
  int const fd = fs.open(argv[1], O_RDONLY);
  gpufs::file_status status{};
  int const error = fd < 0 ? fd : fs.stat(fd, status);
  if (error != 0) return std::fprintf(stderr, "%s: %s\n", argv[1], std::strerror(-error)), 1;
  gpufs::buffer<answer> result(1);
  result.fill_zero();
  gpufs::launch(add_up, 16, 128, fs.ref(), fd, long(status.size / sizeof(record)), step,
                result.data());
  gpufs::synchronize();
  answer got{};
  result.copy_to_host(&got, 1);
  if (got.error != 0) return std::fprintf(stderr, "read: %s\n", std::strerror(-got.error)), 1;
  std::printf("%llu records, sum %llu\n", got.records, got.sum);
} catch (std::exception const& e) {
  return std::fprintf(stderr, "%s\n", e.what()), 1;
}
