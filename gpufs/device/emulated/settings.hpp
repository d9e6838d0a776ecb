// Settings of the emulated device.
#pragma once

#include <gpufs/device/emulated/fiber.hpp>

#include <cstddef>
#include <cstdint>

namespace gpufs::emulated {

/// Each is read from the environment variable named beside it when the device is first used, and
/// can be replaced with configure().
struct settings {
  unsigned blocks =
      8;  ///< GPUFS_EMULATED_BLOCKS: resident blocks of one kernel, 1..256, one OS thread each
  std::uint64_t seed = 1;  ///< GPUFS_EMULATED_SEED: picks the order of threads, preemptions, splits
  unsigned preempt =
      16;  ///< GPUFS_EMULATED_PREEMPT: one in so many atomics is preempted on average; 0 = none
  std::size_t stack_bytes = default_stack_bytes;  ///< GPUFS_EMULATED_STACK: bytes of stack of a
                                                  ///< device thread, 16384..16777216
};

/// Most shared memory of a block: as on an H200.
inline constexpr std::uint64_t shared_bytes_per_block = 227 << 10;

/// The settings in force. Throws device_error naming an environment variable that is wrong, its
/// value, and what is allowed.
[[nodiscard]] settings current_settings();

/// Replaces the settings for launches from now on, and starts the count of launches anew: the same
/// seed followed by the same launches gives every block the same order of threads again, as far as
/// it depends on nothing outside the block. Throws device_error if a value is out of bounds.
void configure(settings const& to);

}  // namespace gpufs::emulated
