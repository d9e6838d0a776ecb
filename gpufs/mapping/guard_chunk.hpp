// What kernels may do with chunks of objects that are only read (mapping_config::guard_read_only).
#pragma once

#include <gpufs/mapping/guarded_range.hpp>
#include <gpufs/mapping/object.hpp>
#include <gpufs/mapping_options.hpp>

#include <cstddef>

namespace gpufs::shared {

/// For a chunk that has got device memory, or whose object is used for something else now. No call
/// uses it. Returns false if it stays closed to stores that it should take.
inline bool guard_chunk(guarded_range& range, mapping_config const& settings, object const& o,
                        std::size_t i) noexcept {
  if (!settings.guard_read_only) return true;
  auto const at = o.offset + o.bytes_of_chunk(i).first;
  if (!o.is_read_only())
    return range.set_device_access(at, device_memory::device_access::read_write);
  // What is refused is noted there.
  static_cast<void>(range.set_device_access(at, device_memory::device_access::read));
  return true;
}

}  // namespace gpufs::shared
