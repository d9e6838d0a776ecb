// Windows of a file mapped before something is measured.
#pragma once

#include <gpufs/filesystem.hpp>

#include <cstdint>

namespace gpufs::apps {

/// With io_path mapped: has the windows of an open file mapped that can be, as far as the budget
/// goes, and waits until none has been added for half a second or all are; without it does nothing.
/// A kernel after that finds them; one before it, or that begins at once, has most of what it
/// touches first staged. Returns the seconds it took. Throws std::runtime_error if the advice is
/// refused.
double map_windows(filesystem& fs, int fd, std::uint64_t file_bytes);

}  // namespace gpufs::apps
