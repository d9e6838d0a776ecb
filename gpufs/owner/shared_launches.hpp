// What the public classes of shared memory share.
#pragma once

#include <cstdint>
#include <memory>

namespace gpufs::shared {
class address_space;
}

namespace gpufs::owner {

/// Hands all objects of the address space to launches that declare nothing, from now on.
void watch_launches(std::shared_ptr<shared::address_space> const& space);

/// What is changed in objects with files is written back when the process ends by exit().
void write_back_at_exit();

/// Whether bytes [first, first + bytes) lie in an object of `size` bytes.
inline bool lies_in(std::uint64_t first, std::uint64_t bytes, std::uint64_t size) {
  return first <= size && bytes <= size - first;
}

}  // namespace gpufs::owner
