// A CUDA program with memory for the CPU and memory for the GPU, and copies between them. With
// -DONE_MEMORY both are the same shared memory. Nothing else differs, and gpufs is not named: the
// linker leads launches, copies and I/O to it. Both builds must print the same.
//
//   plain_cuda FILE    prints sums of what it computes from FILE
#include <csetjmp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <cooperative_groups.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(ONE_MEMORY)
#include <gpufs/compat/adsm.h>
#endif

namespace {

using word = unsigned;

void stop(char const* what) {
  std::printf("%s\n", what);
  std::exit(1);
}

void expect(cudaError_t result, char const* what) {
  if (result == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(result));
  std::exit(1);
}
#define EXPECT(call) expect(call, #call)

/// An array on both sides.
struct array {
  explicit array(size_t n) : count(n), bytes(n * sizeof(word)) {
#if defined(ONE_MEMORY)
    host = device = static_cast<word*>(adsmAlloc(bytes));
    if (host == nullptr) std::exit(1);
#else
    EXPECT(cudaMalloc(&device, bytes));
    host = static_cast<word*>(std::calloc(1, bytes));
#endif
  }
  ~array() {
#if defined(ONE_MEMORY)
    adsmFree(host);
#else
    cudaFree(device);
    std::free(host);
#endif
  }
  array(array const&) = delete;
  array& operator=(array const&) = delete;

  void to_device() { EXPECT(cudaMemcpy(device, host, bytes, cudaMemcpyHostToDevice)); }
  void to_host() { EXPECT(cudaMemcpy(host, device, bytes, cudaMemcpyDeviceToHost)); }
  void print(char const* name) const {
    unsigned long long sum = 0;
    for (size_t i = 0; i < count; ++i) sum = sum * 31 + host[i];
    std::printf("%-12s %016llx\n", name, sum);
  }

  size_t count, bytes;
  word* host = nullptr;
  word* device = nullptr;
};

__constant__ word factors[256];
__device__ word found[256];

__global__ void mix(word* to, word const* from, size_t n, word salt) {
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n;
       i += size_t(gridDim.x) * blockDim.x)
    to[i] = to[i] * 3 + from[i] + word(i) + salt;
}

__global__ void scale(word* to, size_t n) {
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n;
       i += size_t(gridDim.x) * blockDim.x)
    to[i] *= factors[i % 256];
}

__global__ void find(word const* from) { found[threadIdx.x] = from[threadIdx.x] ^ 0x55u; }

__global__ void mix_after_all(word* to, word* by, size_t n) {
  auto const grid = cooperative_groups::this_grid();
  for (size_t i = grid.thread_rank(); i < n; i += grid.size()) by[i] = to[n - 1 - i];
  grid.sync();
  for (size_t i = grid.thread_rank(); i < n; i += grid.size()) to[i] += by[i];
}

void launches(array& a, array& b) {
  cudaStream_t own;
  EXPECT(cudaStreamCreate(&own));
  mix<<<64, 128, 0, own>>>(a.device, b.device, a.count, 1);
  EXPECT(cudaGetLastError());
  size_t n = a.count;
  word salt = 2;
  void* arguments[] = {&a.device, &b.device, &n, &salt};
  EXPECT(
      cudaLaunchKernel(reinterpret_cast<void const*>(mix), dim3(32), dim3(64), arguments, 0, own));
  cudaLaunchConfig_t how{};
  how.gridDim = dim3(16);
  how.blockDim = dim3(128);
  how.stream = own;
  EXPECT(cudaLaunchKernelEx(&how, mix, a.device, static_cast<word const*>(b.device), n, word(3)));
  void* of_all[] = {&a.device, &b.device, &n};
  EXPECT(cudaLaunchCooperativeKernel(reinterpret_cast<void const*>(mix_after_all), dim3(8),
                                     dim3(128), of_all, 0, own));
  EXPECT(cudaStreamSynchronize(own));
  EXPECT(cudaStreamDestroy(own));
  a.to_host();
  b.to_host();
  a.print("launches a");
  b.print("launches b");
}

void copies(array& a, array& b) {
  std::memset(b.host, 3, b.bytes);
  b.host[5] = 77;
  b.to_device();
  EXPECT(cudaMemcpy(a.device + 100, b.device, b.bytes / 2, cudaMemcpyDeviceToDevice));
  EXPECT(cudaMemsetAsync(a.device + a.count - 1000, 9, 2000));
  EXPECT(cudaMemset2D(a.device + 200, 4096, 6, 100, 20));
  EXPECT(cudaMemcpy2D(a.device + 10'000, 2048, b.device, 4096, 512, 30, cudaMemcpyDeviceToDevice));
  EXPECT(cudaDeviceSynchronize());
  a.to_host();
  a.print("copies");
  std::memmove(a.host, a.host + 777, a.bytes / 2);
  a.host[0] = 12345;
  a.to_device();
  EXPECT(cudaMemcpyToSymbol(factors, a.host, sizeof(factors)));
  scale<<<16, 64>>>(a.device, a.count);
  find<<<1, 256>>>(a.device);
  EXPECT(cudaDeviceSynchronize());
  a.to_host();
  EXPECT(cudaMemcpyFromSymbol(a.host, found, sizeof(found)));
  a.to_device();
  mix<<<16, 64>>>(a.device, b.device, a.count, 8);
  EXPECT(cudaGetLastError());
  word* const pinned = [&] {
    void* p = nullptr;
    EXPECT(cudaMallocHost(&p, a.bytes));
    return static_cast<word*>(p);
  }();
  EXPECT(cudaMemcpyAsync(pinned, a.device, a.bytes, cudaMemcpyDeviceToHost));
  EXPECT(cudaDeviceSynchronize());
  std::memcpy(b.host, pinned, b.bytes);
  EXPECT(cudaFreeHost(pinned));
  b.print("symbols");
}

void files(array& a, char const* name) {
  int const in = ::open(name, O_RDONLY);
  if (in < 0) stop("the file cannot be opened");
  std::FILE* const again = ::fdopen(::dup(in), "rb");
  std::FILE* const out = std::tmpfile();
  // What the device has goes to a file, and comes back.
  a.to_host();
  if (std::fwrite(a.host, sizeof(word), a.count, out) != a.count) stop("short fwrite");
  if (::read(in, a.host, a.bytes) != ssize_t(a.bytes)) stop("short read");
  a.to_device();
  scale<<<16, 64>>>(a.device, a.count);
  EXPECT(cudaGetLastError());
  a.to_host();
  a.print("read");
  ::lseek(in, 0, SEEK_SET);
  if (std::fread(a.host, 1, 100, again) != 100) stop("short fread");
  if (std::fread(a.host + 25, 1, a.bytes - 100, again) != a.bytes - 100) stop("short fread");
  a.to_device();
  scale<<<16, 64>>>(a.device, a.count);
  EXPECT(cudaGetLastError());
  a.to_host();
  if (::pwrite(::fileno(out), a.host, a.bytes, off_t(a.bytes)) != ssize_t(a.bytes))
    stop("short pwrite");
  std::fflush(out);
  if (::pread(::fileno(out), a.host, a.bytes, off_t(a.bytes / 2)) != ssize_t(a.bytes))
    stop("short pread");
  a.print("files");
  std::fclose(again);
  std::fclose(out);
  ::close(in);
  a.to_device();
}

::sigjmp_buf back;
void on_signal(int number) { ::siglongjmp(back, number); }

/// Faults of the program's own memory go to its own handlers.
void own_signals(array& a, array& b) {
  std::signal(SIGSEGV, on_signal);
  std::signal(SIGBUS, on_signal);
#if defined(ONE_MEMORY)
  // The handlers of a program that sets them later are in front. A new address space changes that.
  static auto& again = *new gpufs::shared_memory;
  static_cast<void>(again);
#endif
  auto* const nothing =
      static_cast<char*>(::mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  if (int const number = sigsetjmp(back, 1); number == 0)
    *static_cast<char volatile*>(nothing) = 1;
  else
    std::printf("signal       %s\n", number == SIGSEGV ? "SIGSEGV" : "another");
  int const empty = ::memfd_create("empty", MFD_CLOEXEC);
  auto* const beyond = static_cast<char*>(::mmap(nullptr, 4096, PROT_READ, MAP_SHARED, empty, 0));
  if (int const number = sigsetjmp(back, 1); number == 0)
    std::printf("%d\n", *static_cast<char volatile*>(beyond));
  else
    std::printf("signal       %s\n", number == SIGBUS ? "SIGBUS" : "another");
  ::close(empty);
  mix<<<16, 64>>>(a.device, b.device, a.count, 5);
  EXPECT(cudaDeviceSynchronize());
  a.to_host();
  a.print("afterwards");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) stop("usage: plain_cuda FILE");
  constexpr size_t count = 1'000'003;
  array a(count), b(count);
  for (size_t i = 0; i < count; ++i) {
    a.host[i] = word(i * 2654435761u);
    b.host[i] = word(i);
  }
  a.to_device();
  b.to_device();
  launches(a, b);
  copies(a, b);
  a.to_host();
  b.to_device();
  files(a, argv[1]);
  own_signals(a, b);
  return 0;
}
