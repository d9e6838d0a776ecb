// Shared memory that lies idle beside a measurement.
#pragma once

#include <gpufs/mapping.hpp>

#include <optional>

namespace gpufs::apps {

inline constexpr char idle_mapping_help[] =
    "keep 64 MiB of shared memory beside the measurement, which nothing uses";

/// While it lives, the process has a shared_memory with one object that the CPU has written and
/// the device has got.
class idle_mapping {
 public:
  /// `wanted` = false makes nothing. Throws config_error, device_error, shared_memory_error.
  explicit idle_mapping(bool wanted);

 private:
  std::optional<shared_memory> memory_;
  mapping object_;
};

}  // namespace gpufs::apps
