// A user of the installed package whose own calls the linker leads to gpufs: it reads a file into
// what a kernel has written, and a kernel adds up the bytes.
#include <gpufs/compat/adsm.h>
#include <gpufs/compat/gmac.h>

#include <cstdio>
#include <cstdlib>

#include <fcntl.h>
#include <unistd.h>

namespace {

__global__ void fill(unsigned char* bytes, unsigned count) {
  for (unsigned i = threadIdx.x; i < count; i += blockDim.x) bytes[i] = 1;
}

__global__ void add_up(unsigned char const* bytes, unsigned count, unsigned long long* sum) {
  unsigned long long own = 0;
  for (unsigned i = threadIdx.x; i < count; i += blockDim.x) own += bytes[i];
  atomicAdd(sum, own);
}

// Where there is CUDA, by its own syntax.
void launch_fill(unsigned char* bytes, unsigned count) {
#if defined(__CUDACC__)
  fill<<<1, 64>>>(bytes, count);
#else
  adsmCall(fill, dim3(1), dim3(64), bytes, count);
#endif
}
void launch_add_up(unsigned char const* bytes, unsigned count, unsigned long long* sum) {
#if defined(__CUDACC__)
  add_up<<<1, 64>>>(bytes, count, sum);
#else
  adsmCall(add_up, dim3(1), dim3(64), bytes, count, sum);
#endif
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return std::fputs("usage: wrapped_consumer FILE\n", stderr), 2;
  constexpr unsigned most = 1 << 20;
  auto* const bytes = static_cast<unsigned char*>(adsmAlloc(most));
  void* address = nullptr;
  if (bytes == nullptr || gmacMalloc(&address, 8) != gmacSuccess) return 1;
  auto* const sum = static_cast<unsigned long long*>(address);
  launch_fill(bytes, most);
  int const fd = ::open(argv[1], O_RDONLY);
  auto const got = ::read(fd, bytes, most);
  if (got < 0) return std::perror("read"), 1;
  launch_add_up(bytes, most, sum);
  if (adsmSync() != 0) return 1;
  unsigned long long expected = most - static_cast<unsigned long long>(got);
  for (unsigned i = 0; i < got; ++i) expected += bytes[i];
  std::printf("%s: sum of bytes %llu on the device, %llu on the host\n", argv[1], *sum, expected);
  bool const right = *sum == expected;
  return adsmFree(bytes) == 0 && gmacFree(address) == gmacSuccess && right ? 0 : 1;
}
