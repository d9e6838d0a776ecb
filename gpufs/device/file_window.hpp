// Parts of host files that kernels can read: what the two devices offer for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace gpufs::detail {

/// Bytes of a file that the device reads at `address`. CUDA: the pages of the OS page cache
/// themselves, pinned until the window goes. Emulated: a copy of them.
struct file_window {
  std::byte* address = nullptr;  ///< the device's; at least 16-byte aligned
  std::uint64_t bytes = 0;
  void* host = nullptr;  ///< what unmap_file_window() needs
};

enum class mapping_refusal {
  none,
  file,    ///< this file, or its file system, cannot be mapped, or not there
  device,  ///< the device does not take mapped files, or the machine does not let it
};

/// Why a window could not be had: errno or the device's code, and who said so.
struct mapping_result {
  mapping_refusal refused = mapping_refusal::none;
  char const* call = "";  ///< the call that failed
  char const* why = "";   ///< in words
};

/// Maps bytes [offset, offset + bytes) of the file `fd`, all of which it has, for the current
/// device. `offset`: a multiple of the host's page size. If the file shrinks meanwhile, fails or
/// gives a window whose later bytes mean nothing (emulated: that is shorter). May take as long as
/// the device pleases.
[[nodiscard]] mapping_result map_file_window(int fd, std::uint64_t offset, std::uint64_t bytes,
                                             file_window& out) noexcept;

/// Takes a window back. Waits for the kernels that were launched before; none launched later may
/// use the window.
void unmap_file_window(file_window const& window) noexcept;

/// Stores words in device memory, in order, each of them as one, even while kernels look at them:
/// who sees a word (acquire) sees those before it. Throws device_error.
void store_device_words(std::uint64_t* device, std::span<std::uint64_t const> words);

/// A word of device memory that kernels may be changing. Throws device_error.
[[nodiscard]] std::uint32_t load_device_word(std::uint32_t const* device);

}  // namespace gpufs::detail
