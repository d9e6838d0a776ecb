#include <gpufs/compat/gmac.h>
#include <gpufs/owner/process_memory.hpp>

#include <host-daemon/base/say.hpp>

#include <cerrno>
#include <cstring>

namespace gpufs::owner {

namespace {

gmacError_t as_gmac(int error) {
  switch (error) {
    case 0: return gmacSuccess;
    case -ENOMEM: return gmacErrorMemoryAllocation;
    case -ENODEV: return gmacErrorNoAccelerator;
    case -EINVAL: return gmacErrorInvalidValue;
    default: return gmacErrorLaunchFailure;
  }
}

gmacError_t invalid(char const* call, char const* why) {
  daemon::say("{}: {}", call, why);
  return gmacErrorInvalidValue;
}

gmacError_t allocate(char const* call, void** address, std::size_t bytes) {
  if (address == nullptr) return invalid(call, "no pointer for the address is given");
  *address = nullptr;
  try {
    *address = process_memory::get().allocate(bytes);
    return gmacSuccess;
  } catch (...) {
    return as_gmac(reported_failure(call));
  }
}

void* done(char const* call, void* to, int error) {
  if (error == 0) return to;
  daemon::say("{}: {}", call, std::strerror(-error));
  return nullptr;
}

}  // namespace

extern "C" {

gmacError_t gmacMalloc(void** address, std::size_t bytes) {
  return allocate("gmacMalloc", address, bytes);
}

gmacError_t gmacGlobalMalloc(void** address, std::size_t bytes, enum GmacGlobalMallocType) {
  return allocate("gmacGlobalMalloc", address, bytes);
}

gmacError_t gmacFree(void* address) {
  if (address == nullptr) return gmacSuccess;
  auto* const own = process_memory::existing();
  int const error = own == nullptr ? -EINVAL : own->free(address);
  return error == -EINVAL ? invalid("gmacFree", "the address is not what gmacMalloc() gave")
                          : as_gmac(error);
}

void* gmacPtr(void const* address) {
  auto* const own = process_memory::existing();
  return own != nullptr && own->is_for_kernels(address) ? const_cast<void*>(address) : nullptr;
}

gmacError_t gmacThreadSynchronize(void) {
  auto* const own = process_memory::existing();
  if (own == nullptr) return gmacSuccess;
  try {
    own->memory().synchronize();
    return gmacSuccess;
  } catch (...) {
    return as_gmac(reported_failure("gmacThreadSynchronize"));
  }
}

void* gmacMemcpy(void* to, void const* from, std::size_t bytes) {
  auto* const own = process_memory::existing();
  if (own == nullptr) return std::memmove(to, from, bytes);
  return done("gmacMemcpy", to, own->memory().copy(to, from, bytes));
}

void* gmacMemset(void* to, int value, std::size_t bytes) {
  auto* const own = process_memory::existing();
  if (own == nullptr) return std::memset(to, value, bytes);
  return done("gmacMemset", to, own->memory().set(to, value, bytes));
}

gmacError_t gmacMemoryMap(void* memory, std::size_t bytes, enum GmacProtection) {
  constexpr char call[] = "gmacMemoryMap";
  try {
    return process_memory::get().map(memory, bytes) == 0
               ? gmacSuccess
               : invalid(call, "no bytes, or some of them are shared or mapped already");
  } catch (...) {
    int const error = reported_failure(call);
    return error == -EOPNOTSUPP ? gmacErrorFeatureNotSupported
           : error == -EIO      ? gmacErrorMemoryAllocation
                                : as_gmac(error);
  }
}

gmacError_t gmacMemoryUnmap(void* memory, std::size_t bytes) {
  auto* const own = process_memory::existing();
  try {
    if (own != nullptr) {
      own->memory().synchronize();  // kernels may use the bytes
      if (own->unmap(memory, bytes) == 0) return gmacSuccess;
    }
  } catch (...) {
    return as_gmac(reported_failure("gmacMemoryUnmap"));
  }
  return invalid("gmacMemoryUnmap", "these bytes have not been mapped by one gmacMemoryMap()");
}

}  // extern "C"

}  // namespace gpufs::owner
