#include <gpufs/device/memory.hpp>
#include <gpufs/device/shared_range.hpp>
#include <gpufs/mapping/staging_memory.hpp>

#include <exception>

#include <sys/mman.h>

namespace gpufs::shared {

namespace {

constexpr std::uint64_t large_page = 2 << 20;

}  // namespace

staging_memory::staging_memory(std::uint64_t bytes) : bytes_(bytes) {
  if (bytes % large_page == 0) take_large_pages();
  if (large_ == nullptr) plain_ = pinned_buffer<std::byte>(bytes);
}

staging_memory::~staging_memory() {
  if (large_ == nullptr) return;
  device_memory::unshare_host_memory(large_);
  ::munmap(large_, bytes_);
}

// The addresses begin at a large page. What lies before and behind them is given back.
void staging_memory::take_large_pages() noexcept {
  void* const got = ::mmap(nullptr, bytes_ + large_page, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (got == MAP_FAILED) return;
  auto* const first = static_cast<std::byte*>(got);
  std::uint64_t const before =
      device_memory::rounded_up(reinterpret_cast<std::uintptr_t>(first), large_page) -
      reinterpret_cast<std::uintptr_t>(first);
  auto* const begin = first + before;
  if (before != 0) ::munmap(first, before);
  if (before != large_page) ::munmap(begin + bytes_, large_page - before);
  // A child of fork() would make the device and the parent have different pages.
  bool is_pinned = ::madvise(begin, bytes_, MADV_DONTFORK) == 0;
  ::madvise(begin, bytes_, MADV_HUGEPAGE);
  try {
    is_pinned = is_pinned && device_memory::share_host_memory(begin, bytes_);
  } catch (std::exception const&) {  // pinned_buffer says what the system refuses
    is_pinned = false;
  }
  if (is_pinned)
    large_ = begin;
  else
    ::munmap(begin, bytes_);
}

}  // namespace gpufs::shared
