#include <gpufs/device/cuda/check.hpp>
#include <gpufs/device/managed_memory.hpp>
#include <gpufs/device/page_entries.hpp>

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

// The driver gives a page that the CPU touches an entry in the CPU's page table, and takes it away
// when the GPU does.
void managed_memory::watch(std::uint64_t first, std::uint64_t end) const {
  for (auto at = first / host_page * host_page; at < end; at += host_page)
    static_cast<void>(*static_cast<std::byte const volatile*>(data() + at));
}

std::vector<std::uint64_t> managed_memory::touched_units(std::uint64_t first,
                                                         std::uint64_t end) const {
  return units_with_pages(data(), first, end, false);
}

}  // namespace gpufs::device_memory
