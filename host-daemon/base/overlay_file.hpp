// Files of overlayfs, which container images lie on.
#pragma once

#include <linux/magic.h>
#include <sys/vfs.h>

namespace gpufs::daemon {

/// Whether a file lies on overlayfs. There cachestat(2) knows no page of a file. And once another
/// process writes a file of a lower layer, an mmap of a descriptor that was open for reading shows
/// the old bytes, while read(2) has the new ones.
[[nodiscard]] inline bool is_on_overlay(int fd) {
  struct ::statfs of {};
  return ::fstatfs(fd, &of) == 0 && of.f_type == OVERLAYFS_SUPER_MAGIC;
}

}  // namespace gpufs::daemon
