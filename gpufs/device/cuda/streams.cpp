// Streams, events and launches on a GPU.
#include <gpufs/device.hpp>
#include <gpufs/device/cuda/check.hpp>
#include <gpufs/device/cuda/thread_streams.hpp>
#include <gpufs/device/launch_check.hpp>
#include <gpufs/device/launch_observer.hpp>

#include <atomic>
#include <cstdlib>
#include <mutex>

#include <unistd.h>

namespace gpufs {

namespace cuda_device {

namespace {

// Runs before main, so before main's first CUDA call. Lazy loading at a kernel's first launch can
// wait for a running kernel, which may wait for the host.
struct eager_loading {
  eager_loading() { setenv("CUDA_MODULE_LOADING", "EAGER", 0); }
} const set_eager_loading;

std::atomic<pid_t> user_of_cuda{0};  // the process that called CUDA first

}  // namespace

bool in_forked_child() noexcept {
  pid_t const user = user_of_cuda.load(std::memory_order_relaxed);
  return user != 0 && user != ::getpid();
}

stream& late_stream() {
  struct all_streams {
    std::mutex mutex;
    bool ended = false;
    thread_streams streams{ended};
  };
  static all_streams& all = *new all_streams;
  std::lock_guard const lock(all.mutex);
  return all.streams.current();
}

void check(cudaError_t result, char const* call) {
  if (result == cudaSuccess) {
    pid_t none = 0;
    // Relaxed: a child of fork() has the parent's value, whichever thread stored it.
    if (user_of_cuda.load(std::memory_order_relaxed) == 0)
      user_of_cuda.compare_exchange_strong(none, ::getpid(), std::memory_order_relaxed);
    return;
  }
  // Clears the error, so that the next call does not report it. A lost context keeps its error.
  cudaGetLastError();
  throw device_error(std::string(call) + " failed: " + cudaGetErrorName(result) + ": " +
                     cudaGetErrorString(result));
}

void load_kernel(void const* kernel) {
  cudaFuncAttributes attributes;
  check(cudaFuncGetAttributes(&attributes, kernel), "cudaFuncGetAttributes");
}

void launch_kernel(launch_options const& options, void const* kernel, void** arguments) {
  constexpr std::uint64_t allowed_unasked = 48 << 10;
  std::uint64_t most_shared = allowed_unasked;
  if (options.dynamic_shared_bytes > allowed_unasked) {
    int device = 0;
    int opt_in = 0;
    check(cudaGetDevice(&device), "cudaGetDevice");
    check(cudaDeviceGetAttribute(&opt_in, cudaDevAttrMaxSharedMemoryPerBlockOptin, device),
          "cudaDeviceGetAttribute");
    most_shared = std::uint64_t(opt_in);
  }
  detail::check_launch(options, most_shared);
  if (options.dynamic_shared_bytes > allowed_unasked)
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               int(options.dynamic_shared_bytes)),
          "cudaFuncSetAttribute(MaxDynamicSharedMemorySize)");
  stream& on = options.on != nullptr ? *options.on : this_thread_stream();
  auto const observed = device::observe_launch(on);
  check(cudaLaunchKernel(kernel, options.grid, options.block, arguments,
                         options.dynamic_shared_bytes, on.native()),
        "cudaLaunchKernel");
}

}  // namespace cuda_device

using cuda_device::check;

struct stream::implementation {
  implementation() {
    check(cudaStreamCreateWithFlags(&handle, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  }
  explicit implementation(cudaStream_t of_program) : handle(of_program), is_own(false) {}
  ~implementation() {
    if (is_own && !cuda_device::in_forked_child()) cudaStreamDestroy(handle);
  }
  implementation(implementation const&) = delete;
  implementation& operator=(implementation const&) = delete;

  cudaStream_t handle = nullptr;
  bool is_own = true;
};

stream stream::of(CUstream_st* native) { return stream(std::make_shared<implementation>(native)); }

stream::stream() : implementation_(std::make_shared<implementation>()) {}
stream::~stream() = default;
stream::stream(stream&&) noexcept = default;
stream& stream::operator=(stream&&) noexcept = default;

void stream::synchronize() { check(cudaStreamSynchronize(native()), "cudaStreamSynchronize"); }

bool stream::done() const {
  cudaError_t const result = cudaStreamQuery(native());
  if (result == cudaErrorNotReady) return false;
  check(result, "cudaStreamQuery");
  return true;
}

CUstream_st* stream::native() const { return implementation_->handle; }

stream& this_thread_stream() {
  thread_local bool ended = false;
  if (ended) return cuda_device::late_stream();
  thread_local cuda_device::thread_streams own(ended);
  return own.current();
}

void synchronize() { check(cudaDeviceSynchronize(), "cudaDeviceSynchronize"); }

struct event::implementation {
  implementation() { check(cudaEventCreate(&handle), "cudaEventCreate"); }
  ~implementation() {
    if (!cuda_device::in_forked_child()) cudaEventDestroy(handle);
  }
  cudaEvent_t handle = nullptr;
  bool recorded = false;
};

event::event() : implementation_(std::make_shared<implementation>()) {}
event::~event() = default;
event::event(event&&) noexcept = default;
event& event::operator=(event&&) noexcept = default;

void event::record(stream& on) {
  check(cudaEventRecord(implementation_->handle, on.native()), "cudaEventRecord");
  implementation_->recorded = true;
}
void event::synchronize() const {
  check(cudaEventSynchronize(implementation_->handle), "cudaEventSynchronize");
}

double event::seconds_between(event const& from, event const& to) {
  if (!from.implementation_->recorded || !to.implementation_->recorded)
    throw device_error("event::seconds_between: an event was never recorded");
  float milliseconds = 0;
  check(
      cudaEventElapsedTime(&milliseconds, from.implementation_->handle, to.implementation_->handle),
      "cudaEventElapsedTime");
  return double(milliseconds) / 1000;
}

}  // namespace gpufs
