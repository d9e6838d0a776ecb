// Settings of a gpufs::shared_memory, and options of its objects, as plain structs.
#pragma once

#include <cstdint>
#include <optional>

namespace gpufs {

/// When bytes of an object move between CPU and GPU (ADSM, section 4.3).
/// batch    All bytes move to the GPU at each launch and back at each synchronize(). No faults.
/// lazy     The whole object moves, on the first touch of the side that lacks it.
/// rolling  The same by blocks. Blocks that the CPU has written are sent while it writes others.
enum class coherence_protocol { batch, lazy, rolling };

/// What somebody does with bytes of an object.
enum class access { read, write, read_write };

/// Value of mapping_config::coherence_block and map_options::block: 2 MiB, but at most a sixteenth
/// of the object and at least 64 KiB.
inline constexpr std::uint64_t block_automatic = 0;

/// Value of mapping_config::rolling_size: the size follows from the faults.
inline constexpr std::uint32_t rolling_automatic = 0;

/// Value of mapping_config::pinned_memory: a quarter of the host's memory.
inline constexpr std::uint64_t pinned_automatic = ~0ull;

/// Every setting of a shared_memory with its default. The constructor calls validate().
struct mapping_config {
  /// Bytes of addresses for all objects, from 64 GiB to 64 TiB, a multiple of 2 MiB. If the system
  /// refuses them, half of them are tried, down to 64 GiB; see shared_memory::notes().
  std::uint64_t address_space = 16ull << 40;

  /// Bytes of a block, the unit of coherence of rolling objects: a power of two from 4 KiB to
  /// 32 MiB, or block_automatic. Small blocks suit CPUs that touch single elements.
  std::uint64_t coherence_block = block_automatic;

  /// The protocol of objects that do not choose one.
  coherence_protocol protocol = coherence_protocol::rolling;

  /// Blocks that the CPU may have written and that are not under way to the GPU yet, 1..2^30, for
  /// all rolling objects together. Or rolling_automatic (ADSM, section 4.3).
  std::uint32_t rolling_size = rolling_automatic;

  /// With rolling_automatic: blocks per object at first, 1..1024.
  std::uint32_t rolling_per_object = 2;

  /// With rolling_automatic: one block more after so many writes to blocks that were just sent,
  /// 1..2^20. A launch that finds fewer written blocks than may be halves their number.
  std::uint32_t rolling_patience = 4;

  /// Most bytes of the CPU's side of objects that are pinned, so that the GPU copies them by
  /// itself: at several times the rate of other bytes. Pinned are bytes that are copied, and bytes
  /// ahead of a CPU thread that goes through an object. 0 = none, or pinned_automatic.
  std::uint64_t pinned_memory = pinned_automatic;

  /// Most bytes of GPU memory for objects; 0 = what is free, less a tenth.
  std::uint64_t device_memory = 0;
};

/// What one object does not take from mapping_config.
struct map_options {
  /// Nothing: mapping_config::protocol.
  std::optional<coherence_protocol> protocol = std::nullopt;

  /// As mapping_config::coherence_block. Nothing: the value there. Lazy objects have one block.
  std::optional<std::uint64_t> block = std::nullopt;
};

/// Checks each setting. Throws config_error naming the first wrong one, its value and the remedy.
void validate(mapping_config const& c);

}  // namespace gpufs
