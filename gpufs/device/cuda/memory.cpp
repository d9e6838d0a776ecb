// Memory and description of a GPU.
#include <gpufs/device.hpp>
#include <gpufs/device/cuda/check.hpp>
#include <gpufs/device/cuda/thread_streams.hpp>
#include <gpufs/device/memory.hpp>

#include <cstring>
#include <vector>

namespace gpufs {

using cuda_device::check;

bool device_available() noexcept {
  int count = 0;
  if (cudaGetDeviceCount(&count) == cudaSuccess) return count > 0;
  cudaGetLastError();
  return false;
}

device_info current_device() {
  int const device = current_device_number();
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

int current_device_number() {
  int device = 0;
  check(cudaGetDevice(&device), "cudaGetDevice");
  return device;
}

void make_device_current(int number) { check(cudaSetDevice(number), "cudaSetDevice"); }

namespace device_memory {

namespace {

// Calls of this thread go through, and invalidate no capture, while it lives. The others' captures
// in global mode would forbid them. No call here is one that a capture should record.
class beside_captures {
 public:
  beside_captures() { exchange(); }
  ~beside_captures() { exchange(); }
  beside_captures(beside_captures const&) = delete;
  beside_captures& operator=(beside_captures const&) = delete;

 private:
  void exchange() noexcept { cudaThreadExchangeStreamCaptureMode(&mode_); }

  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;  // then the thread's own
};

// Copies have a stream of their own. On the kernels' stream they would wait for kernels, which may
// wait for the host.
stream& copy_stream() {
  thread_local bool ended = false;
  if (ended) return cuda_device::late_stream();
  thread_local cuda_device::thread_streams own(ended);
  return own.current();
}

void copy(void* to, void const* from, std::uint64_t bytes, cudaMemcpyKind direction,
          char const* call) {
  if (bytes == 0) return;
  beside_captures const relaxed;
  stream& on = copy_stream();
  check(cudaMemcpyAsync(to, from, bytes, direction, on.native()), call);
  on.synchronize();
}

}  // namespace

void* allocate_device(std::uint64_t bytes) {
  void* memory = nullptr;
  beside_captures const relaxed;
  if (bytes != 0)
    check(cudaMalloc(&memory, bytes),
          ("cudaMalloc of " + std::to_string(bytes) + " bytes").c_str());
  return memory;
}

void free_device(void* memory, std::uint64_t) noexcept {
  if (memory == nullptr || cuda_device::in_forked_child()) return;
  beside_captures const relaxed;
  cudaFree(memory);
}

// CUDA aligns small memory to less than a page. So a page more is asked for, and what CUDA gave is
// noted before the first whole page.
void* allocate_pinned(std::uint64_t bytes) {
  constexpr std::uintptr_t page = 4096;
  if (bytes == 0) return nullptr;
  void* given = nullptr;
  beside_captures const relaxed;
  check(bytes > UINT64_MAX - page
            ? cudaErrorMemoryAllocation
            : cudaHostAlloc(&given, bytes + page, cudaHostAllocMapped | cudaHostAllocPortable),
        ("cudaHostAlloc of " + std::to_string(bytes) + " bytes").c_str());
  auto* const memory =
      static_cast<std::byte*>(given) + (page - reinterpret_cast<std::uintptr_t>(given) % page);
  std::memcpy(memory - sizeof given, &given, sizeof given);
  return memory;
}

void free_pinned(void* memory, std::uint64_t) noexcept {
  if (memory == nullptr || cuda_device::in_forked_child()) return;
  void* given = nullptr;
  std::memcpy(&given, static_cast<std::byte*>(memory) - sizeof given, sizeof given);
  beside_captures const relaxed;
  cudaFreeHost(given);
}

bool share_host_memory(void* memory, std::uint64_t bytes) {
  beside_captures const relaxed;
  check(cudaHostRegister(memory, bytes, cudaHostRegisterMapped | cudaHostRegisterPortable),
        "cudaHostRegister");
  void* of_device = nullptr;
  if (cudaHostGetDevicePointer(&of_device, memory, 0) == cudaSuccess && of_device == memory)
    return true;
  cudaGetLastError();
  unshare_host_memory(memory);
  return false;
}

void unshare_host_memory(void* memory) noexcept {
  if (cuda_device::in_forked_child()) return;
  beside_captures const relaxed;
  if (cudaHostUnregister(memory) != cudaSuccess) cudaGetLastError();
}

void enter_library_thread(int device) {
  make_device_current(device);
  auto mode = cudaStreamCaptureModeRelaxed;
  check(cudaThreadExchangeStreamCaptureMode(&mode), "cudaThreadExchangeStreamCaptureMode");
}

borrowed_thread::borrowed_thread() : device_(current_device_number()) {
  auto mode = cudaStreamCaptureModeRelaxed;
  check(cudaThreadExchangeStreamCaptureMode(&mode), "cudaThreadExchangeStreamCaptureMode");
  mode_ = int(mode);
}

borrowed_thread::~borrowed_thread() {
  auto mode = cudaStreamCaptureMode(mode_);
  if (cudaThreadExchangeStreamCaptureMode(&mode) != cudaSuccess) cudaGetLastError();
  try {
    if (current_device_number() != device_) make_device_current(device_);
  } catch (device_error const&) {  // the next call of the thread reports
  }
}

void copy_to_device(void* device, void const* host, std::uint64_t bytes) {
  copy(device, host, bytes, cudaMemcpyHostToDevice, "cudaMemcpyAsync to the device");
}

void copy_to_host(void* host, void const* device, std::uint64_t bytes) {
  copy(host, device, bytes, cudaMemcpyDeviceToHost, "cudaMemcpyAsync to the host");
}

void copy_to_device(stream& on, std::span<pinned_copy const> pieces) {
#if CUDART_VERSION >= 13000
  if (pieces.size() > 1) {  // costs half as much as one call each
    std::vector<void*> to;
    std::vector<void const*> from;
    std::vector<std::size_t> bytes;
    for (auto const& p : pieces) {
      to.push_back(p.device);
      from.push_back(p.pinned);
      bytes.push_back(p.bytes);
    }
    cudaMemcpyAttributes attributes{};
    attributes.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
    attributes.flags = cudaMemcpyFlagPreferOverlapWithCompute;
    std::size_t first = 0;
    check(cudaMemcpyBatchAsync(to.data(), from.data(), bytes.data(), pieces.size(), &attributes,
                               &first, 1, on.native()),
          "cudaMemcpyBatchAsync to the device");
    return;
  }
#endif
  for (auto const& p : pieces)
    check(cudaMemcpyAsync(p.device, p.pinned, p.bytes, cudaMemcpyHostToDevice, on.native()),
          "cudaMemcpyAsync to the device");
}

void copy_to_pinned(stream& on, void* pinned, void const* device, std::uint64_t bytes) {
  check(cudaMemcpyAsync(pinned, device, bytes, cudaMemcpyDeviceToHost, on.native()),
        "cudaMemcpyAsync to the host");
}

void zero_device(void* device, std::uint64_t bytes) {
  if (bytes == 0) return;
  beside_captures const relaxed;
  stream& on = copy_stream();
  check(cudaMemsetAsync(device, 0, bytes, on.native()), "cudaMemsetAsync");
  on.synchronize();
}

}  // namespace device_memory

}  // namespace gpufs
