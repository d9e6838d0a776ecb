// The variants without gpufs: input files brought to memory that kernels read directly.
#pragma once

#include <apps/analytics/variant.hpp>
#include <apps/harness/data_set.hpp>

#include <cstddef>
#include <memory>
#include <vector>

namespace gpufs::apps::analytics {

class direct_inputs {
 public:
  virtual ~direct_inputs() = default;

  /// Reads all files. Returns when their bytes are there. Throws std::system_error naming the file,
  /// or device_error.
  virtual void load() = 0;

  /// Where kernels find the bytes of a file, 256-byte aligned.
  [[nodiscard]] virtual std::byte const* bytes(unsigned file) const = 0;
};

/// Takes the memory for zerocopy, managed, copy, pipeline or memory; with `memory` also reads the
/// files. Throws device_error, or usage_error for managed on the emulated device.
[[nodiscard]] std::unique_ptr<direct_inputs> make_direct_inputs(
    variant how, std::vector<data_file const*> const& files);

/// Reads bytes of a file into host memory, with 8 threads. Throws std::system_error naming it.
void read_by_threads(host_file const& file, std::byte* to, std::uint64_t bytes,
                     std::uint64_t offset = 0);

}  // namespace gpufs::apps::analytics
