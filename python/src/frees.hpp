// Device memory that is given up while transfers run.
//
// CUDA's free waits for kernels. A transfer's kernel may wait for a copy of the filesystem, and
// that copy for the free. So memory is kept until no transfer of the process runs. A filesystem
// that ends, and a transfer whose device has failed, free theirs at once.
#pragma once

#include <gpufs/device.hpp>

#include <cstdint>
#include <memory>

namespace gpufs::python {

/// Most bytes that are kept. With more the kernels that run are waited for, and all is freed.
inline constexpr std::uint64_t most_kept_bytes = 256ull << 20;

/// Frees memory of so many bytes, now or at the end of the last transfer that runs. Any thread
/// calls. A free waits for kernels of others: the caller does not hold the GIL.
void free_between_transfers(std::shared_ptr<void const> memory, std::uint64_t bytes) noexcept;

/// Waits for the kernels that run, and frees what is kept. Any thread, without the GIL. Frees
/// nothing while another thread launches one.
void free_kept() noexcept;

/// Allocates device memory, if need be in place of what is kept. Any thread, without the GIL.
/// Throws device_error.
template <class T>
buffer<T> allocate(std::uint64_t count) {
  try {
    return buffer<T>(count);
  } catch (device_error const&) {
    free_kept();
  }
  return buffer<T>(count);
}

struct kept_memory;

/// The kernel of a transfer may run while it lives. Any thread, without the GIL: its start waits
/// for frees that are under way, and the end of the last one frees what was kept. So it ends soon
/// after its kernel.
class running_kernel {
 public:
  running_kernel();
  ~running_kernel();
  running_kernel(running_kernel const&) = delete;
  running_kernel& operator=(running_kernel const&) = delete;

  /// The kernel has been launched, and `ended` is behind it. That lives as long as this. May wait
  /// for kernels, and free.
  void launched(event const& ended) noexcept;

 private:
  friend struct kept_memory;
  kept_memory& kept_;
  event const* ended_ = nullptr;  // null: it is being launched
};

}  // namespace gpufs::python
