// What shared memory asks the emulated device, beside addresses.
#include <gpufs/device/emulated/capacity.hpp>
#include <gpufs/device/emulated/executor.hpp>
#include <gpufs/device/emulated/threads.hpp>
#include <gpufs/device/shared_range.hpp>

namespace gpufs::device_memory {

bool shared_range::set_device_access(std::uint64_t, device_access) noexcept { return true; }
std::string shared_range::why_not_guarded() const { return {}; }

bool is_captured(stream&) { return false; }

std::uint64_t free_device_bytes() { return emulated::free_memory(); }

GPUFS_NO_TSAN bool in_kernel() noexcept { return emulated::running_thread != nullptr; }

// The store is in the kernel's source. Its place is not known.
GPUFS_NO_TSAN void fail_kernel(char const* why) noexcept { emulated::fail_launch(why, {}); }

bool runs_kernels(pid_t thread) noexcept { return emulated::block_workers::has(thread); }

}  // namespace gpufs::device_memory
