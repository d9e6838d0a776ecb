// Where the device finds the bytes of an object. It goes by chunks, of whole blocks.
//
//            device's memory            CPU's side                        launches that use it
//   device   a copy in GPU memory       its own memory, by block states   start
//   host     none: it uses the          the only memory                   start
//            CPU's side over the bus
//   away     none                       the only memory, or a file        bring it first
#pragma once

#include <gpufs/mapping_options.hpp>

#include <cstdint>

namespace gpufs::shared {

enum class tier : std::uint8_t { device, host, away };

/// A part of an object that lies in one tier.
struct chunk {
  tier where = tier::away;
  memory_advice advice = memory_advice::automatic;
  double heat = 0;              ///< the part of it that launches touch, as a profile says
  std::uint64_t last_call = 0;  ///< that used it while anything was not in device memory
  /// It is away, and the CPU's side may have bytes of it that no file has. Of objects that spill.
  bool is_kept = false;
  std::uint64_t touched = 0;  ///< then: its place in the order of tier_account::touches
};

}  // namespace gpufs::shared
