// What wrapped calls have to do with shared memory.
#pragma once

#include <gpufs/device/shared_range.hpp>
#include <gpufs/mapping/address_space.hpp>
#include <gpufs/mapping/guard.hpp>
#include <gpufs/mapping/quiet_lock.hpp>
#include <gpufs/owner/shared_launches.hpp>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>

namespace gpufs::owner {

/// Bytes from an address on that lie in its object.
struct own_bytes {
  std::shared_ptr<shared::address_space> space;  ///< null: it has no object
  std::uint64_t count = 0;
};

/// Whether a call is for us that names these bytes. One load, if there is no address space. Calls
/// of the library are not, and no kernel's (emulated device), which would wait for itself.
[[nodiscard]] inline bool concerns_us(void const* first, std::uint64_t bytes) {
  return bytes != 0 && shared::is_guarded(first, bytes) && !device_memory::in_kernel() &&
         !shared::is_in_library();
}

[[nodiscard]] inline own_bytes find_own(void const* first, std::uint64_t bytes) {
  if (!concerns_us(first, bytes)) return {};
  auto space = space_at(first);
  if (space == nullptr) return {};
  auto const object = space->find(first);
  if (object.bytes == 0) return {};
  auto const left = object.bytes - (space->offset_of(first) - object.offset);
  return {std::move(space), std::min(bytes, left)};
}

}  // namespace gpufs::owner
