// Memory and description of a GPU.
#include <cstring>
#include <gpufs/device.hpp>
#include <gpufs/device/cuda/check.hpp>

namespace gpufs {

using cuda_device::check;

bool device_available() noexcept {
  int count = 0;
  if (cudaGetDeviceCount(&count) == cudaSuccess) return count > 0;
  cudaGetLastError();
  return false;
}

device_info current_device() {
  int device = 0;
  check(cudaGetDevice(&device), "cudaGetDevice");
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties");
  return {.name = properties.name,
          .kind = "cuda",
          .multiprocessors = unsigned(properties.multiProcessorCount),
          .compute_capability = unsigned(properties.major * 10 + properties.minor),
          .memory_bytes = properties.totalGlobalMem,
          .l2_bytes = std::uint64_t(properties.l2CacheSize),
          .shared_bytes_per_block = properties.sharedMemPerBlockOptin};
}

namespace detail {

namespace {

// Copies go through a stream of their own: on the one that kernels are launched on they would wait for kernels, which may wait for us.
stream& copy_stream() {
  thread_local stream own;
  return own;
}

void copy(void* to, void const* from, std::uint64_t bytes, cudaMemcpyKind direction, char const* call) {
  if (bytes == 0) return;
  check(cudaMemcpyAsync(to, from, bytes, direction, copy_stream().native()), call);
  copy_stream().synchronize();
}

}  // namespace

void* allocate_device(std::uint64_t bytes) {
  void* memory = nullptr;
  if (bytes != 0) check(cudaMalloc(&memory, bytes), ("cudaMalloc of " + std::to_string(bytes) + " bytes").c_str());
  return memory;
}

void free_device(void* memory, std::uint64_t) noexcept {
  if (memory != nullptr) cudaFree(memory);
}

void* allocate_pinned(std::uint64_t bytes) {
  void* memory = nullptr;
  if (bytes != 0)
    check(cudaHostAlloc(&memory, bytes, cudaHostAllocMapped | cudaHostAllocPortable),
          ("cudaHostAlloc of " + std::to_string(bytes) + " bytes").c_str());
  return memory;
}

void free_pinned(void* memory, std::uint64_t) noexcept {
  if (memory != nullptr) cudaFreeHost(memory);
}

void copy_to_device(void* device, void const* host, std::uint64_t bytes) {
  copy(device, host, bytes, cudaMemcpyHostToDevice, "cudaMemcpyAsync to the device");
}

void copy_to_host(void* host, void const* device, std::uint64_t bytes) {
  copy(host, device, bytes, cudaMemcpyDeviceToHost, "cudaMemcpyAsync to the host");
}

void zero_device(void* device, std::uint64_t bytes) {
  if (bytes == 0) return;
  check(cudaMemsetAsync(device, 0, bytes, copy_stream().native()), "cudaMemsetAsync");
  copy_stream().synchronize();
}

}  // namespace detail

}  // namespace gpufs
