#include <gpufs/compat/adsm.h>
#include <gpufs/owner/process_memory.hpp>

#include <cerrno>

namespace gpufs::owner {

extern "C" {

void* adsmAlloc(std::size_t bytes) {
  try {
    return process_memory::get().allocate(bytes);
  } catch (...) {
    errno = -reported_failure("adsmAlloc");
    return nullptr;
  }
}

int adsmFree(void* address) {
  if (address == nullptr) return 0;
  auto* const own = process_memory::existing();
  return own == nullptr ? -EINVAL : own->free(address);
}

int adsmSync(void) {
  auto* const own = process_memory::existing();
  if (own == nullptr) return 0;
  try {
    own->memory().synchronize();
    return 0;
  } catch (...) {
    return reported_failure("adsmSync");
  }
}

void* adsmSafeAlloc(std::size_t bytes) { return adsmAlloc(bytes); }

void* adsmSafe(void* address) {
  auto* const own = process_memory::existing();
  return own != nullptr && own->is_for_kernels(address) ? address : nullptr;
}

}  // extern "C"

}  // namespace gpufs::owner

namespace gpufs::detail {

int reported_failure(char const* call) noexcept { return owner::reported_failure(call); }

}  // namespace gpufs::detail
