// Shared memory with budgets that its objects exceed.
#pragma once

#include <gpufs/mapping.hpp>

#include <cerrno>
#include <cstdint>

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

}  // namespace gpufs::test
