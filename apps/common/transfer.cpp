#include <apps/common/transfer.hpp>

#include <cstring>
#include <string>

namespace gpufs::apps {

void transfer_queue::copy_to_device(void* device, void const* host, std::uint64_t bytes) {
#if defined(GPUFS_EMULATED)
  std::memcpy(device, host, bytes);
#else
  cudaError_t const result =
      cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, stream_.native());
  if (result != cudaSuccess)
    throw device_error(std::string("cudaMemcpyAsync failed: ") + cudaGetErrorString(result));
#endif
}

}  // namespace gpufs::apps
