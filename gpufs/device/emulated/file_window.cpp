// File windows of the emulated device: copies. While a file does not change, pinned pages look the
// same.
#include <gpufs/device/emulated/launches.hpp>
#include <gpufs/device/file_window.hpp>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <new>
#include <thread>

#include <unistd.h>

namespace gpufs::detail {

namespace {

constexpr std::align_val_t host_page{4096};

}  // namespace

mapping_result map_file_window(int fd, std::uint64_t offset, std::uint64_t bytes,
                               file_window& out) noexcept {
  // Exactly as large as requested, so AddressSanitizer sees accesses beyond it.
  void* const memory = ::operator new(bytes, host_page, std::nothrow);
  if (memory == nullptr) return {mapping_refusal::device, "operator new", "no memory"};
  constexpr unsigned most_interruptions = 1000;
  std::uint64_t done = 0;
  unsigned interruptions = 0;
  while (done < bytes) {
    auto const n =
        ::pread(fd, static_cast<char*>(memory) + done, bytes - done, off_t(offset + done));
    if (n < 0 && errno == EINTR && ++interruptions < most_interruptions) continue;
    if (n < 0) {
      ::operator delete(memory, host_page);
      return {mapping_refusal::file, "pread", std::strerror(errno)};
    }
    if (n == 0) break;
    done += std::uint64_t(n);
  }
  out = {static_cast<std::byte*>(memory), done, memory};
  return {};
}

void unmap_file_window(file_window const& window) noexcept {
  for (bool waited = false; !waited;) {
    try {
      emulated::wait_for_launches();
      waited = true;
    } catch (std::bad_alloc const&) {  // kernels may use the window until there is memory to ask
      std::this_thread::sleep_for(std::chrono::milliseconds{1});
    }
  }
  ::operator delete(window.host, host_page);
}

void store_device_words(std::uint64_t* device, std::span<std::uint64_t const> words) {
  // Pairs with the acquires in source::window_address().
  for (auto const w : words)
    std::atomic_ref<std::uint64_t>{*device++}.store(w, std::memory_order_release);
}

std::uint32_t load_device_word(std::uint32_t const* device) {
  return std::atomic_ref<std::uint32_t>{*const_cast<std::uint32_t*>(device)}.load(
      std::memory_order_acquire);
}

}  // namespace gpufs::detail
