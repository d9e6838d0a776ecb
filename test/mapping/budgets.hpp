// Shared memory with budgets that its objects exceed.
#pragma once

#include <gpufs/mapping.hpp>

#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <string>
#include <system_error>

#include <sys/stat.h>

namespace gpufs::test {

/// Budgets in bytes, in chunks of 2 MiB.
inline mapping_config tight(std::uint64_t device, std::uint64_t host) {
  mapping_config c;
  c.device_memory = device;
  c.host_memory = host;
  c.chunk_size = 2 << 20;
  c.fill_threads = 2;  // each has kernels of its own, with stacks of their own
  return c;
}

/// Calls `launch`. Returns false if the budgets cannot hold what the launch may use. Then nothing
/// has happened.
template <class Launch>
bool launched(Launch const& launch) {
  try {
    launch();
    return true;
  } catch (shared_memory_error const& e) {
    if (e.code() != ENOMEM) throw;
    return false;
  }
}

/// What the CPU's side of this process's objects takes of the host's memory, in bytes.
inline std::uint64_t host_bytes() {
  std::uint64_t sum = 0;
  for (auto const& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    auto const name = std::filesystem::read_symlink(entry.path(), gone).string();
    struct ::stat status {};
    if (!gone && name.find("gpufs shared, host") != std::string::npos &&
        ::stat(entry.path().c_str(), &status) == 0)
      sum += std::uint64_t(status.st_blocks) * 512;
  }
  return sum;
}

}  // namespace gpufs::test
