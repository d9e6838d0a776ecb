// Device memory that is given up while transfers run.
//
// CUDA's free waits for kernels. A transfer's kernel may wait for a copy of the filesystem, and
// that copy for the free. So memory is kept until no transfer of the process runs.
#pragma once

#include <memory>

namespace gpufs::python {

/// Frees memory, now or at the end of the last transfer that runs. Any thread calls. A free waits
/// for kernels of others: the caller does not hold the GIL.
void free_between_transfers(std::shared_ptr<void const> memory) noexcept;

struct kept_memory;

/// The kernel of a transfer may run while it lives. Any thread, without the GIL: its start waits
/// for frees that are under way, and the end of the last one frees what was kept.
class running_kernel {
 public:
  running_kernel();
  ~running_kernel();
  running_kernel(running_kernel const&) = delete;
  running_kernel& operator=(running_kernel const&) = delete;

 private:
  kept_memory& kept_;
};

}  // namespace gpufs::python
