// Memory and description of the emulated device. Both kinds of memory are the host's.
#include <gpufs/device.hpp>
#include <gpufs/device/emulated/settings.hpp>
#include <gpufs/device/memory.hpp>

#include <cstring>
#include <new>

#include <sys/sysinfo.h>
#include <unistd.h>

namespace gpufs {

bool device_available() noexcept { return true; }

device_info current_device() {
  struct sysinfo host {};
  sysinfo(&host);
  long const l2 = sysconf(_SC_LEVEL2_CACHE_SIZE);
  return {.name = "emulated device",
          .kind = "emulated",
          .multiprocessors = emulated::current_settings().blocks,
          .compute_capability = 0,
          .memory_bytes = std::uint64_t(host.totalram) * host.mem_unit,
          .l2_bytes = l2 > 0 ? std::uint64_t(l2) : 0,
          .shared_bytes_per_block = emulated::shared_bytes_per_block};
}

int current_device_number() { return 0; }
void make_device_current(int) {}

namespace device_memory {

namespace {

constexpr std::align_val_t device_alignment{256};
constexpr std::align_val_t pinned_alignment{4096};

// From the heap and exactly as large as requested, so AddressSanitizer sees accesses beyond it.
void* allocate(std::uint64_t bytes, std::align_val_t alignment, char const* what) {
  if (bytes == 0) return nullptr;
  void* const memory = ::operator new(bytes, alignment, std::nothrow);
  if (memory == nullptr)
    throw device_error(std::string(what) + ": no memory for " + std::to_string(bytes) + " bytes");
  return memory;
}

}  // namespace

void* allocate_device(std::uint64_t bytes) {
  return allocate(bytes, device_alignment, "gpufs::buffer");
}
void free_device(void* memory, std::uint64_t) noexcept {
  ::operator delete(memory, device_alignment);
}
void* allocate_pinned(std::uint64_t bytes) {
  return allocate(bytes, pinned_alignment, "gpufs::pinned_buffer");
}
void free_pinned(void* memory, std::uint64_t) noexcept {
  ::operator delete(memory, pinned_alignment);
}

bool share_host_memory(void*, std::uint64_t) { return true; }
void unshare_host_memory(void*) noexcept {}

void enter_library_thread(int) {}
borrowed_thread::borrowed_thread() : device_(current_device_number()) {}
borrowed_thread::~borrowed_thread() {
  make_device_current(device_);
  static_cast<void>(mode_);  // nobody captures here
}

void copy_to_device(void* device, void const* host, std::uint64_t bytes) {
  if (bytes != 0) std::memcpy(device, host, bytes);
}
void copy_to_host(void* host, void const* device, std::uint64_t bytes) {
  if (bytes != 0) std::memcpy(host, device, bytes);
}
void zero_device(void* device, std::uint64_t bytes) {
  if (bytes != 0) std::memset(device, 0, bytes);
}

}  // namespace device_memory

}  // namespace gpufs
