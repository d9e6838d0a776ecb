// What calls of the API name of objects.
#pragma once

#include <gpufs/device.hpp>
#include <gpufs/mapping/object.hpp>
#include <gpufs/mapping_options.hpp>
#include <gpufs/mapping_statistics.hpp>

#include <cstdint>
#include <optional>
#include <vector>

namespace gpufs::shared {

/// Blocks that a call is going to use, of an object that may be gone by then.
struct part {
  std::uint64_t offset, id;  ///< of the object
  block_run blocks;
  bool writes;
};

/// Nothing: the call declares nothing, and may use all objects.
using parts_of_call = std::optional<std::vector<part>>;

/// What the begin of a call does about bytes that the device lacks.
enum class missing_bytes { refuse, bring };

/// How a call begins.
struct beginning {
  stream& on;  ///< where its work goes
  missing_bytes missing;
  /// A declaration orders it with calls of other streams that use the same bytes, unless none of
  /// the two writes them. Not wanted for what the program itself puts on its streams.
  bool is_ordered = true;
};

/// Bytes of an object that the CPU will probably touch next.
struct bytes_ahead {
  std::uint64_t offset, id;  ///< of the object
  byte_run bytes;
};

/// An object, for those who know an address of it.
struct object_place {
  std::uint64_t offset, bytes;
};

/// What counts moved bytes by their reason. Null `blocks`: they do not lie in whole blocks.
using counter = std::uint64_t mapping_statistics::*;
struct reason {
  counter blocks, bytes;
};
/// Bytes are sent since a call or a write-back needs them.
inline constexpr reason released{&mapping_statistics::release_blocks,
                                 &mapping_statistics::release_bytes};

/// What a range of an object is to be made ready for; see mapping::acquire().
struct wanted {
  std::uint64_t first;
  std::uint64_t bytes;
  access use;
};

}  // namespace gpufs::shared
