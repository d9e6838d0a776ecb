#include <gpufs/device.hpp>

#include <apps/common/managed_memory.hpp>
#include <apps/common/program.hpp>

#include <string>

namespace gpufs::apps {

#if defined(GPUFS_EMULATED)

managed_memory::managed_memory(std::uint64_t) {
  throw usage_error(
      "--variant managed: must be another variant, as the emulated device has no "
      "managed memory");
}

managed_memory::~managed_memory() = default;

#else

managed_memory::managed_memory(std::uint64_t bytes) {
  if (cudaError_t const result = cudaMallocManaged(&memory_, bytes); result != cudaSuccess)
    throw device_error(std::string("cudaMallocManaged failed: ") + cudaGetErrorString(result));
}

managed_memory::~managed_memory() { cudaFree(memory_); }

#endif

}  // namespace gpufs::apps
