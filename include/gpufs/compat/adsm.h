// The interface of ADSM (section 3.2 of its paper) over one shared_memory of the process, which the
// first call makes on the current device. docs/mapping.md says who sees what when.
//
// All threads may call. Failures also say on stderr what was wrong and what helps.
#pragma once

#include <stddef.h>

#if defined(__cplusplus)
extern "C" {
#endif

/// Memory of zeros that CPU and kernels use through the same address. GMAC_PROTOCOL and
/// GMAC_BLOCK_SIZE of the environment set how it moves, as <gpufs/compat/gmac.h> says.
/// Returns null, with errno: EINVAL 0 bytes, or a wrong setting | ENOMEM | ENODEV no device.
void* adsmAlloc(size_t bytes);

/// Frees memory of adsmAlloc(), after the calls that use it. A null address is allowed.
/// Returns 0, or
///   -EINVAL not the begin of such memory | -EIO the device failed
int adsmFree(void* address);

/// Waits for all calls. The CPU may use their results then. Returns 0, or -EIO a call failed.
int adsmSync(void);

/// ADSM's calls for addresses that are not the same on both sides. Here they always are.
void* adsmSafeAlloc(size_t bytes);
/// The kernels' address for a CPU's address of shared memory, or null for other memory.
void* adsmSafe(void* address);

#if defined(__cplusplus)
}  // extern "C"

#include <gpufs/mapping.hpp>

#include <utility>

namespace gpufs::detail {
/// Says what was thrown, in a handler for it. Returns its -errno.
int reported_failure(char const* call) noexcept;
}  // namespace gpufs::detail

#if defined(GPUFS_EMULATED) || defined(__CUDACC__)
/// Runs a kernel on all shared memory, asynchronously, behind the thread's calls before it.
/// Returns 0, or -EIO the device failed | another -errno the launch was refused.
template <class... Parameters, class... Arguments>
int adsmCall(void (*kernel)(Parameters...), dim3 grid, dim3 block, Arguments&&... arguments) {
  try {
    gpufs::launch(kernel, grid, block, std::forward<Arguments>(arguments)...);
    return 0;
  } catch (...) {
    return gpufs::detail::reported_failure("adsmCall");
  }
}
#endif
#endif
