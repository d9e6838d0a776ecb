// Registers the windows of a file before something is measured.
#pragma once

#include <gpufs/filesystem.hpp>

#include <cstdint>

namespace gpufs::apps {

/// With io_path registered: registers the windows of the open file `fd`, up to registered_memory.
/// Waits until all are registered, or none was added for half a second. Else it does nothing.
///
/// Later kernels read these windows directly. Without this call a kernel gets most of the bytes
/// that it touches first by staging. Returns the seconds it took. Throws std::runtime_error if the
/// advice is refused.
double register_windows(filesystem& fs, int fd, std::uint64_t file_bytes);

}  // namespace gpufs::apps
