// Opening a file again with O_DIRECT.
#include <gpufs/base/above_stderr.hpp>

#include <host-daemon/backend/direct_file.hpp>
#include <host-daemon/base/interrupted.hpp>

#include <fmt/format.h>

#include <bit>
#include <cerrno>
#include <cstring>
#include <optional>

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

namespace gpufs::daemon {

namespace {

// True for file systems that keep files in the page cache alone. Since Linux 6.6 they accept
// O_DIRECT and ignore it.
bool lives_in_memory(int fd) {
  struct ::statfs s {};
  if (::fstatfs(fd, &s) != 0) return false;
  return s.f_type == TMPFS_MAGIC || s.f_type == RAMFS_MAGIC || s.f_type == HUGETLBFS_MAGIC;
}

// The alignment that the file system asks for, if it says so (Linux 6.1). Zeros: the file cannot be
// read with O_DIRECT.
std::optional<direct_alignment> told_alignment(int fd) {
#if defined(STATX_DIOALIGN)
  struct ::statx s {};
  if (::statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &s) == 0 && (s.stx_mask & STATX_DIOALIGN) != 0)
    return direct_alignment{s.stx_dio_offset_align, s.stx_dio_mem_align};
#else
  static_cast<void>(fd);
#endif
  return std::nullopt;
}

}  // namespace

direct_file::direct_file(int fd) {
  if (lives_in_memory(fd)) {
    why_not_ = "its file system keeps files in memory";
    return;
  }
  if (auto const told = told_alignment(fd)) {
    alignment_ = *told;
    if (!std::has_single_bit(told->offset) || !std::has_single_bit(told->memory)) {
      why_not_ = "its file system does not offer O_DIRECT for it";
      return;
    }
  }
  // Opened by way of /proc: it is the same file, whatever has happened to its name. fcntl() would
  // set O_DIRECT for the first descriptor, too, as duplicates share their flags.
  auto const name = fmt::format("/proc/self/fd/{}", fd);
  fd_ = while_interrupted([&] {
    int const opened = base::above_stderr(::open(name.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC));
    return opened >= 0 ? opened : -errno;
  });
  if (fd_ < 0) {
    why_not_ = fmt::format("it could not be opened with O_DIRECT ({})", std::strerror(-fd_));
    return;
  }
  usable_.store(true, std::memory_order_relaxed);
}

std::int64_t direct_file::read(std::span<std::byte> to, std::uint64_t offset) const noexcept {
  auto const bytes = ::pread(fd_, to.data(), to.size(), off_t(offset));
  return bytes < 0 ? -std::int64_t(errno) : std::int64_t(bytes);
}

direct_file::~direct_file() {
  if (fd_ >= 0) ::close(fd_);
}

}  // namespace gpufs::daemon
