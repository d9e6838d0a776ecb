// The interface of GMAC, which is ADSM's public implementation, over the same shared_memory of the
// process as <gpufs/compat/adsm.h>.
//
// GMAC_PROTOCOL    batch, lazy or rolling (default), in any case
// GMAC_BLOCK_SIZE  bytes of a block, a power of two from 4K to 32M; default: by the object's size
//
// All threads may call. Failures also say on stderr what was wrong and what helps. Kernels are
// launched by gpufs::launch(), or by <<<>>> in programs with gpufs_wrap_launches().
#pragma once

#include <stddef.h>

typedef enum {
  gmacSuccess = 0,
  gmacErrorMemoryAllocation,    ///< there is no memory left
  gmacErrorLaunchFailure,       ///< the device failed, or a kernel did
  gmacErrorNoAccelerator,       ///< there is no device
  gmacErrorInvalidValue,        ///< a wrong argument, or a wrong setting in the environment
  gmacErrorFeatureNotSupported  ///< the device cannot do that
} gmacError_t;

/// Kernels may do anything with mapped memory, whatever is asked for.
enum GmacProtection {
  GMAC_PROT_NONE = 0,
  GMAC_PROT_READ = 1,
  GMAC_PROT_WRITE = 2,
  GMAC_PROT_READWRITE = 3
};

/// There is one device, and so no difference.
enum GmacGlobalMallocType {
  GMAC_GLOBAL_MALLOC_REPLICATED = 0,
  GMAC_GLOBAL_MALLOC_DISTRIBUTED,
  GMAC_GLOBAL_MALLOC_CENTRALIZED
};

#if defined(__cplusplus)
extern "C" {
#endif

/// Stores the address of `bytes` zeros, the same for CPU and kernels, in `*address`.
/// Returns gmacErrorInvalidValue (null pointer, 0 bytes, a wrong setting), MemoryAllocation or
/// NoAccelerator; then null is stored.
gmacError_t gmacMalloc(void** address, size_t bytes);
gmacError_t gmacGlobalMalloc(void** address, size_t bytes, enum GmacGlobalMallocType hint
#if defined(__cplusplus)
                             = GMAC_GLOBAL_MALLOC_CENTRALIZED
#endif
);

/// Frees memory of the two calls above, after the calls that use it. A null address is allowed.
/// Returns gmacErrorInvalidValue (not the begin of such memory) or LaunchFailure.
gmacError_t gmacFree(void* address);

/// The kernels' address for an address of shared or mapped memory, or null for other memory.
void* gmacPtr(void const* address);

/// Waits for all kernels. The CPU may use their results then. Returns gmacErrorLaunchFailure.
gmacError_t gmacThreadSynchronize(void);

/// As memmove() and memset(), with shared memory on one side or on both. Bytes move to and from the
/// side that has the newest ones. Return `to`, or null: the device failed, or bytes beyond memory.
void* gmacMemcpy(void* to, void const* from, size_t bytes);
void* gmacMemset(void* to, int value, size_t bytes);

/// Lets kernels use the program's own memory at its address, over the bus. Neither side copies it.
/// Returns gmacErrorInvalidValue (shared or mapped already, null, 0 bytes), FeatureNotSupported
/// (the device has another address for it) or MemoryAllocation (the system refuses to pin so much).
gmacError_t gmacMemoryMap(void* memory, size_t bytes, enum GmacProtection protection);

/// Ends that, after all kernels. Returns gmacErrorInvalidValue: never mapped with these bytes.
gmacError_t gmacMemoryUnmap(void* memory, size_t bytes);

#if defined(__cplusplus)
}  // extern "C"

template <class T>
T* gmacPtr(T const* address) {
  return static_cast<T*>(gmacPtr(static_cast<void const*>(address)));
}
#endif
