// What shared memory asks of a GPU.
#include <gpufs/device/cuda/check.hpp>
#include <gpufs/device/shared_range.hpp>

#include <cstdint>

#include <cuda_runtime_api.h>

namespace gpufs::device_memory {

using cuda_device::check;

// The driver does not promise it: what the CPU writes must stay on its side, and what is copied to
// the device on the other. Without device memory for that nothing is tried.
void shared_range::test_sides() {
  constexpr std::uint64_t of_cpu = 0x5555'0001, of_device = 0xaaaa'0002;
  struct tried_chunk {
    shared_range& range;
    ~tried_chunk() { range.detach(0, granularity); }
  } const tried{*this};
  attach(0, granularity);
  try {
    add_device(0, granularity, 0);
  } catch (device_error const&) {
    return;
  }
  if (protect(0, granularity, host_access::read_write) != 0) return;
  auto* const cpu = reinterpret_cast<std::uint64_t volatile*>(base_);
  std::uint64_t found = 0;
  *cpu = of_cpu;
  stream on;
  check(cudaMemcpyAsync(base_, &of_device, sizeof found, cudaMemcpyHostToDevice, on.native()),
        "cudaMemcpyAsync");
  check(cudaMemcpyAsync(&found, base_, sizeof found, cudaMemcpyDeviceToHost, on.native()),
        "cudaMemcpyAsync");
  on.synchronize();
  if (found != of_device || *cpu != of_cpu)
    throw device_error(
        "shared memory: the CPU and this GPU cannot have memory of their own at one address here; "
        "set backing = managed");
}

bool is_captured(stream& on) {
  if (cuda_device::in_forked_child()) return false;  // the caller refuses, and needs no device
  auto status = cudaStreamCaptureStatusNone;
  check(cudaStreamIsCapturing(on.native(), &status), "cudaStreamIsCapturing");
  return status != cudaStreamCaptureStatusNone;
}

std::uint64_t free_device_bytes() {
  std::size_t free = 0, all = 0;
  check(cudaMemGetInfo(&free, &all), "cudaMemGetInfo");
  return free;
}

bool in_kernel() noexcept { return false; }
void fail_kernel(char const*) noexcept {}
bool runs_kernels(pid_t) noexcept { return false; }

}  // namespace gpufs::device_memory
