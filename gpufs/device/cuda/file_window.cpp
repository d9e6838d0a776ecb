// File windows on a GPU: pages of the OS page cache, mapped and registered read-only.
#include <gpufs/device.hpp>
#include <gpufs/device/cuda/check.hpp>
#include <gpufs/device/file_window.hpp>

#include <cerrno>
#include <cstring>

#include <cuda_runtime_api.h>
#include <sys/mman.h>
#include <unistd.h>

namespace gpufs::detail {

mapping_result map_file_window(int fd, std::uint64_t offset, std::uint64_t bytes,
                               file_window& out) noexcept {
  // The last page is mapped in full. Its bytes behind the file's end are zeros.
  auto const page = std::uint64_t(::sysconf(_SC_PAGESIZE));
  std::uint64_t const length = (bytes + page - 1) / page * page;
  void* const host = ::mmap(nullptr, length, PROT_READ, MAP_SHARED, fd, off_t(offset));
  if (host == MAP_FAILED) return {mapping_refusal::file, "mmap", std::strerror(errno)};
  // Pins the pages and reads missing ones in. The host never reads through this mapping, since the
  // file may have become shorter.
  cudaError_t error =
      cudaHostRegister(host, length, cudaHostRegisterMapped | cudaHostRegisterReadOnly);
  char const* call = "cudaHostRegister";
  void* device = nullptr;
  if (error == cudaSuccess) {
    error = cudaHostGetDevicePointer(&device, host, 0);
    if (error != cudaSuccess) {
      call = "cudaHostGetDevicePointer";
      cudaHostUnregister(host);
    }
  }
  if (error != cudaSuccess) {
    cudaGetLastError();  // so that no later call reports it
    ::munmap(host, length);
    return {mapping_refusal::device, call, cudaGetErrorString(error)};
  }
  out = {static_cast<std::byte*>(device), bytes, host};
  return {};
}

void unmap_file_window(file_window const& window) noexcept {
  auto const page = std::uint64_t(::sysconf(_SC_PAGESIZE));
  if (cuda_device::in_forked_child()) return;
  if (cudaHostUnregister(window.host) != cudaSuccess) cudaGetLastError();
  ::munmap(window.host, (window.bytes + page - 1) / page * page);
}

void store_device_words(std::uint64_t* device, std::span<std::uint64_t const> words) {
  // One copy per word: a copy of several words may arrive in any order.
  for (auto const w : words) device_memory::copy_to_device(device++, &w, sizeof w);
}

std::uint32_t load_device_word(std::uint32_t const* device) {
  std::uint32_t word = 0;
  device_memory::copy_to_host(&word, device, sizeof word);
  return word;
}

}  // namespace gpufs::detail
