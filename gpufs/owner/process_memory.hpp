// The one address space of a process, for the interfaces of <gpufs/compat/>.
#pragma once

#include <gpufs/mapping.hpp>

#include <cstdint>
#include <map>
#include <mutex>

#include <sys/types.h>
#include <unistd.h>

namespace gpufs::owner {

/// Any thread calls. It is never destroyed: static objects of the program may use what it has.
class process_memory {
 public:
  /// Made at the first call, with the settings of the environment. Throws config_error,
  /// device_error; then the next call tries again. Throws shared_memory_error in a child of fork().
  [[nodiscard]] static process_memory& get();
  /// Null: it has not been made yet.
  [[nodiscard]] static process_memory* existing() noexcept;

  /// Throws shared_memory_error.
  [[nodiscard]] void* allocate(std::uint64_t bytes);
  /// Returns 0, -EINVAL: not what allocate() gave, or -EIO.
  int free(void* address);

  /// Lets kernels use memory of the program at its address. Returns 0 or -EINVAL: some of it is
  /// ours or mapped already. Throws device_error.
  int map(void* memory, std::uint64_t bytes);
  /// Returns 0 or -EINVAL.
  int unmap(void* memory, std::uint64_t bytes);

  [[nodiscard]] bool is_for_kernels(void const* address);
  [[nodiscard]] shared_memory& memory() { return memory_; }

 private:
  process_memory();

  pid_t const process_ = ::getpid();
  shared_memory memory_;
  std::mutex mutex_;
  std::map<void*, mapping> objects_;
  std::map<std::uintptr_t, std::uint64_t> mapped_;  ///< bytes, by address
};

/// Says on stderr what was thrown, in a handler for it. Returns its -errno.
int reported_failure(char const* call) noexcept;

}  // namespace gpufs::owner
