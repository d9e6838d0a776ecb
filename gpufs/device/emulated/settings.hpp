// Settings of the emulated device.
#pragma once

#include <gpufs/device/emulated/fiber.hpp>

#include <cstddef>
#include <cstdint>

namespace gpufs::emulated {

/// The first use of the device reads each from the environment variable named beside it.
/// configure() replaces them.
struct settings {
  /// GPUFS_EMULATED_BLOCKS: resident blocks of one kernel, 1..256; each has an OS thread
  unsigned blocks = 8;
  /// GPUFS_EMULATED_SEED: decides the order of threads, preemptions and splits
  std::uint64_t seed = 1;
  /// GPUFS_EMULATED_PREEMPT: one in so many atomics is preempted on average; 0 = none
  unsigned preempt = 16;
  /// GPUFS_EMULATED_SPLIT: one in so many groups of lanes that come together is split; 0 = none
  unsigned split = 4;
  /// GPUFS_EMULATED_STACK: bytes of stack of a device thread, 16384..16777216
  std::size_t stack_bytes = default_stack_bytes;
  /// GPUFS_EMULATED_MEMORY: bytes of device memory for shared objects, 2097152 and more; 0 = as
  /// much as the host has
  std::uint64_t memory_bytes = 0;
};

/// Most shared memory of a block, as on an H200.
inline constexpr std::uint64_t shared_bytes_per_block = 227 << 10;

/// Returns the current settings. Throws device_error if an environment variable is wrong. The
/// message has its name, its value and the allowed range.
[[nodiscard]] settings current_settings();

/// Replaces the settings of later launches, and restarts the count of launches. With the same seed
/// and the same launches every block has the same order of threads again. This does not hold for
/// threads that depend on data from outside the block. Throws device_error if a value is out of
/// bounds.
void configure(settings const& to);

}  // namespace gpufs::emulated
