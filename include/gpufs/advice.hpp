// What a program may say about how it is going to use a file: the values of gfadvise() and
// filesystem::advise().
#pragma once

#include <fcntl.h>

namespace gpufs {

/// Named and numbered as the POSIX_FADV_* of posix_fadvise(2). What each does on the device and on
/// the host stands at gfadvise() and at filesystem::advise().
enum class advice : int {
  normal = 0,  ///< read ahead as config::prefetch_size says
  random = 1,  ///< read nothing ahead; with io_path auto, map for the GPU what the OS page cache
               ///< has of the file (config::mapped_memory)
  sequential = 2,  ///< read ahead from the first read on, as far as the window may go
  willneed = 3,    ///< have these bytes near
  dontneed = 4,    ///< they need not stay near
};
static_assert(int(advice::normal) == POSIX_FADV_NORMAL &&
              int(advice::random) == POSIX_FADV_RANDOM &&
              int(advice::sequential) == POSIX_FADV_SEQUENTIAL &&
              int(advice::willneed) == POSIX_FADV_WILLNEED &&
              int(advice::dontneed) == POSIX_FADV_DONTNEED);

/// Whether an advice is about all future reads of the file, whatever range it was given for.
constexpr bool concerns_whole_file(advice a) {
  return a == advice::normal || a == advice::random || a == advice::sequential;
}

}  // namespace gpufs
