// The device's part of a copy. Blocks take ranges of files from a common counter. The host makes
// the files durable meanwhile, as the kernel is done with them.
#pragma once

#include <gpufs/filesystem.hpp>

#include <apps/gpufs-cp/copy_tree.hpp>

#include <cstdint>
#include <functional>
#include <vector>

namespace gpufs::apps {

struct copy_shape {
  unsigned blocks = 1;
  unsigned threads = 64;
  std::uint64_t chunk_bytes = 64 << 10;  ///< of one gread and gwrite
};

/// Copies the bytes of all files into their parts, and makes these durable. Calls show(bytes
/// copied) now and then, if there is a `show`. Returns per file 0 or the -errno of the first call
/// that failed. Throws device_error.
[[nodiscard]] std::vector<std::int32_t> run_copy(
    filesystem& fs, std::vector<copied_file> const& files, copy_shape const& shape,
    std::function<void(std::uint64_t)> const& show = {});

}  // namespace gpufs::apps
