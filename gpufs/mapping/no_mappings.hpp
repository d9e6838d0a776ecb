// The system has no more mappings (vm.max_map_count). The device is well.
#pragma once

#include <gpufs/device.hpp>

namespace gpufs::shared {

/// What protect_or_throw() throws.
struct no_mappings : device_error {
  static constexpr char const* text =
      "the system has no more mappings; raise vm.max_map_count or use larger blocks";
  no_mappings() : device_error(std::string("shared memory: ") + text) {}
};

}  // namespace gpufs::shared
