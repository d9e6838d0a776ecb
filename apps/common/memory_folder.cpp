#include <apps/common/memory_folder.hpp>
#include <apps/common/program.hpp>

#include <fmt/format.h>

#include <cerrno>

#include <linux/magic.h>
#include <sys/vfs.h>

namespace gpufs::apps {

bool is_in_memory(std::string const& folder) {
  struct ::statfs system {};
  if (::statfs(folder.c_str(), &system) != 0) return false;
  errno = 0;  // statfs() worked: what is wrong is the file system
  return system.f_type == TMPFS_MAGIC || system.f_type == RAMFS_MAGIC;
}

void require_in_memory(std::string const& option, std::string const& folder) {
  if (is_in_memory(folder)) return;
  throw usage_error(
      fmt::format("{}={}: {}", option, folder,
                  errno != 0 ? error_text(errno) : "must be on tmpfs or ramfs, such as /dev/shm"));
}

}  // namespace gpufs::apps
