#include <gpufs/device.hpp>
#include <gpufs/device/emulated/capacity.hpp>
#include <gpufs/device/emulated/settings.hpp>

#include <algorithm>
#include <atomic>
#include <string>

#include <sys/sysinfo.h>

namespace gpufs::emulated {

namespace {

// Of all reservations, as a GPU's memory is of all of them.
std::atomic<std::uint64_t> bytes_used{0};

std::uint64_t capacity() {
  auto const set = current_settings().memory_bytes;
  if (set != 0) return set;
  struct sysinfo host {};
  ::sysinfo(&host);
  return std::uint64_t(host.totalram) * host.mem_unit;
}

}  // namespace

void take_memory(std::uint64_t bytes) {
  auto const all = capacity();
  // Relaxed: only the number counts.
  auto used = bytes_used.load(std::memory_order_relaxed);
  do {
    if (bytes > all - std::min(all, used))
      throw device_error("shared memory: the emulated device has " + std::to_string(all) +
                         " bytes of memory (GPUFS_EMULATED_MEMORY), and " + std::to_string(used) +
                         " are used; free objects, or lower device_memory");
  } while (!bytes_used.compare_exchange_weak(used, used + bytes, std::memory_order_relaxed));
}

void give_memory(std::uint64_t bytes) noexcept {
  bytes_used.fetch_sub(bytes, std::memory_order_relaxed);
}

std::uint64_t free_memory() {
  auto const all = capacity();
  return all - std::min(all, bytes_used.load(std::memory_order_relaxed));
}

}  // namespace gpufs::emulated
