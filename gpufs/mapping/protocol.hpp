// The states of a block, and what touches and calls make of them. No device, no system calls.
//
//              CPU reads          CPU writes         a call reads it      a call may write it
//   invalid    fetch: read_only   fetch: dirty       invalid              invalid
//   read_only  read_only          dirty              read_only            invalid
//   dirty      dirty              dirty              send: read_only      send: invalid
//
// The newest bytes are on the device (invalid), on both sides (read_only), or on the CPU (dirty).
// Source: ADSM, section 4.3, figure 6. There a call makes all blocks invalid.
//
// An evicted block goes from dirty to read_only. It is protected first and sent then. A write
// during the transfer makes it dirty again, so that it is sent once more before any call.
#pragma once

#include <gpufs/device/shared_range.hpp>

#include <cstdint>

namespace gpufs::shared {

enum class block_state : std::uint8_t { invalid, read_only, dirty };

/// What follows from a touch of the CPU.
struct touch_result {
  bool fetch;  ///< bring the bytes from the device first
  block_state after;
};

constexpr touch_result on_touch(block_state s, bool writes) {
  if (s == block_state::dirty) return {false, block_state::dirty};
  return {s == block_state::invalid, writes ? block_state::dirty : block_state::read_only};
}

/// What the CPU may do with a block in a state.
constexpr device_memory::host_access allowed(block_state s) {
  using device_memory::host_access;
  return s == block_state::invalid     ? host_access::none
         : s == block_state::read_only ? host_access::read
                                       : host_access::read_write;
}

/// Bytes of an object's blocks by the rule of block_automatic: 2 MiB, at most a sixteenth of the
/// object, at least 64 KiB.
constexpr std::uint64_t automatic_block(std::uint64_t object_bytes) {
  std::uint64_t block = 64 << 10;
  while (block < 2 << 20 && block * 2 <= object_bytes / 16) block *= 2;
  return block;
}

}  // namespace gpufs::shared
