// What calls of the API name of objects.
#pragma once

#include <gpufs/mapping/object.hpp>
#include <gpufs/mapping_options.hpp>

#include <cstdint>

namespace gpufs::shared {

/// Blocks that a call is going to use, of an object that may be gone by then.
struct part {
  std::uint64_t offset, id;  ///< of the object
  block_run blocks;
  bool writes;
};

/// Bytes of an object that the CPU will probably touch next.
struct bytes_ahead {
  std::uint64_t offset, id;  ///< of the object
  byte_run bytes;
};

/// What a range of an object is to be made ready for; see mapping::acquire().
struct wanted {
  std::uint64_t first;
  std::uint64_t bytes;
  access use;
};

}  // namespace gpufs::shared
