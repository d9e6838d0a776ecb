// A memory file, so that its entries in the page table can be dropped while the bytes stay.
#include <gpufs/device/managed_memory.hpp>
#include <gpufs/device/page_entries.hpp>

#include <cerrno>
#include <cstring>
#include <string>

#include <sys/mman.h>
#include <unistd.h>

namespace gpufs::device_memory {

namespace {

[[noreturn]] void fail(char const* what) {
  throw device_error(std::string("shared memory: managed memory: ") + what + ": " +
                     std::strerror(errno));
}

}  // namespace

managed_memory::managed_memory(std::uint64_t bytes) : bytes_(bytes + shared_range::granularity) {
  int const file = ::memfd_create("gpufs shared, managed", MFD_CLOEXEC);
  if (file < 0) fail("memfd_create");
  errno = EFBIG;  // as ftruncate(2) would say
  void* const all =
      bytes_ <= longest_file() && ::ftruncate(file, off_t(bytes_)) == 0
          ? ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0)
          : MAP_FAILED;
  int const error = errno;
  ::close(file);
  errno = error;
  if (all == MAP_FAILED) fail("no memory");
  // As of other objects: no core file has them, no child of fork() writes to its parent's.
  ::madvise(all, bytes_, MADV_DONTDUMP);
  ::madvise(all, bytes_, MADV_DONTFORK);
  all_ = static_cast<std::byte*>(all);
}

managed_memory::~managed_memory() {
  if (all_ != nullptr) ::munmap(all_, bytes_);
}

// The memory file keeps the bytes. Touches bring entries back, at most those of 64 KiB around.
void managed_memory::watch(std::uint64_t first, std::uint64_t end) const {
  first = first / host_page * host_page;
  if (first < end &&
      ::madvise(data() + first, rounded_up(end - first, host_page), MADV_DONTNEED) != 0)
    fail("madvise");
}

std::vector<std::uint64_t> managed_memory::touched_units(std::uint64_t first,
                                                         std::uint64_t end) const {
  return units_with_pages(data(), first, end, true);
}

}  // namespace gpufs::device_memory
