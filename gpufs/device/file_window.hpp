// File windows: the interface that both devices offer. Kernels read host files through them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace gpufs::detail {

/// Bytes of a file that the device reads at `address`. On CUDA they are the pages of the OS page
/// cache, pinned until the window is unmapped. On the emulated device they are a copy.
struct file_window {
  std::byte* address = nullptr;  ///< for the device; at least 16-byte aligned
  std::uint64_t bytes = 0;
  void* host = nullptr;  ///< for unmap_file_window()
};

enum class mapping_refusal {
  none,
  file,    ///< this file or its file system cannot be mapped, or not at this offset
  device,  ///< the device or the machine does not allow mapped files
};

/// Why a file window was refused.
struct mapping_result {
  mapping_refusal refused = mapping_refusal::none;
  char const* call = "";  ///< the call that failed
  char const* why = "";   ///< its error in words
};

/// Maps bytes [offset, offset + bytes) of the file `fd` for the current device. The file must have
/// all of them, and `offset` must be a multiple of the host's page size. If the file shrinks
/// meanwhile, the call fails, or later bytes of the window mean nothing. The emulated device then
/// gives a shorter window. The device may block the call for any time.
[[nodiscard]] mapping_result map_file_window(int fd, std::uint64_t offset, std::uint64_t bytes,
                                             file_window& out) noexcept;

/// Unmaps a file window. Waits for the kernels launched before; kernels launched later must not use
/// it.
void unmap_file_window(file_window const& window) noexcept;

/// Stores words in device memory in order, each as a whole, even while kernels read them. A thread
/// that sees a word (acquire) sees those before it. Throws device_error.
void store_device_words(std::uint64_t* device, std::span<std::uint64_t const> words);

/// Loads a word of device memory that kernels may be changing. Throws device_error.
[[nodiscard]] std::uint32_t load_device_word(std::uint32_t const* device);

}  // namespace gpufs::detail
