// A log of changes in a file: records, each followed by its paths and its data.
#pragma once

#include <cstdint>

namespace gpufs::test {

struct log_record {
  static constexpr std::uint32_t ends = ~0u;
  std::uint32_t what;  ///< a change, or `ends`
  std::uint32_t path_bytes, to_bytes, reserved;
  std::uint64_t number, inode, folder, offset, data_bytes;
  std::int64_t result;
};

}  // namespace gpufs::test
