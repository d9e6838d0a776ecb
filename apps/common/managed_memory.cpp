#include <gpufs/device.hpp>

#include <apps/common/managed_memory.hpp>
#include <apps/common/program.hpp>

#include <string>

namespace gpufs::apps {

#if defined(GPUFS_EMULATED)

namespace {
[[noreturn]] void refuse() {
  throw usage_error(
      "--variant managed: must be another variant, as the emulated device has no "
      "managed memory");
}
}  // namespace

managed_memory::managed_memory(std::uint64_t) { refuse(); }
managed_memory::~managed_memory() = default;
device_ballast::device_ballast(std::uint64_t left) {
  if (left != 0) refuse();
}
device_ballast::~device_ballast() = default;

#else

namespace {
void check(cudaError_t result, std::string const& call) {
  if (result != cudaSuccess) throw device_error(call + " failed: " + cudaGetErrorString(result));
}
}  // namespace

managed_memory::managed_memory(std::uint64_t bytes) {
  check(cudaMallocManaged(&memory_, bytes), "cudaMallocManaged");
}

managed_memory::~managed_memory() { cudaFree(memory_); }

device_ballast::device_ballast(std::uint64_t left) {
  if (left == 0) return;
  std::size_t free = 0, all = 0;
  check(cudaMemGetInfo(&free, &all), "cudaMemGetInfo");
  if (free < left)
    throw device_error("--device-memory " + std::to_string(left) + ": must be at most the " +
                       std::to_string(free) + " bytes of GPU memory that are free");
  // The driver takes memory in blocks of 2 MiB, and some of the last ones serve other purposes.
  for (std::size_t bytes = free - left; bytes >= 2 << 20; bytes -= 2 << 20) {
    if (cudaMalloc(&memory_, bytes) == cudaSuccess) return;
    static_cast<void>(cudaGetLastError());
  }
}

device_ballast::~device_ballast() { cudaFree(memory_); }

#endif

}  // namespace gpufs::apps
