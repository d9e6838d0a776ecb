#include <gpufs/device/cuda/check.hpp>
#include <gpufs/device/managed_memory.hpp>

#include <cuda_runtime_api.h>

namespace gpufs::device_memory {

using cuda_device::check;

managed_memory::managed_memory(std::uint64_t bytes) : bytes_(bytes + shared_range::granularity) {
  int device = 0, is_concurrent = 0;
  check(cudaGetDevice(&device), "cudaGetDevice");
  check(cudaDeviceGetAttribute(&is_concurrent, cudaDevAttrConcurrentManagedAccess, device),
        "cudaDeviceGetAttribute");
  if (is_concurrent == 0)
    throw device_error(
        "shared memory: backing = managed: the CPU cannot use managed memory of this GPU while "
        "kernels run; set backing = auto");
  void* all = nullptr;
  check(cudaMallocManaged(&all, bytes_), "cudaMallocManaged");
  all_ = static_cast<std::byte*>(all);
}

managed_memory::~managed_memory() {
  if (all_ != nullptr && !cuda_device::in_forked_child() && cudaFree(all_) != cudaSuccess)
    cudaGetLastError();
}

}  // namespace gpufs::device_memory
