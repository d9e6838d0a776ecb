// Advice about the use of a file: the values for gfadvise() and filesystem::advise().
#pragma once

#include <fcntl.h>

namespace gpufs {

/// Named and numbered as the POSIX_FADV_* of posix_fadvise(2). gfadvise() and filesystem::advise()
/// say in full what each value does on the device and on the host.
enum class advice : int {
  /// Read ahead as config::prefetch_size says.
  normal = 0,
  /// Read nothing ahead. With io_path auto, register the parts of the file that the OS page cache
  /// has (config::registered_memory) as soon as they are read.
  random = 1,
  /// Read ahead from the first read on, to the limit of the readahead depth. With io_path auto,
  /// register nothing of the file.
  sequential = 2,
  /// Bring these bytes near.
  willneed = 3,
  /// These bytes need not stay near.
  dontneed = 4,
};
static_assert(int(advice::normal) == POSIX_FADV_NORMAL &&
              int(advice::random) == POSIX_FADV_RANDOM &&
              int(advice::sequential) == POSIX_FADV_SEQUENTIAL &&
              int(advice::willneed) == POSIX_FADV_WILLNEED &&
              int(advice::dontneed) == POSIX_FADV_DONTNEED);

/// True if the advice concerns all future reads of the file, whatever its range.
constexpr bool concerns_whole_file(advice a) {
  return a == advice::normal || a == advice::random || a == advice::sequential;
}

}  // namespace gpufs
