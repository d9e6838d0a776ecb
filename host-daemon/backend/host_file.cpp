// System calls on an open file.
#include <host-daemon/backend/host_file.hpp>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <new>

#include <fcntl.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

namespace gpufs::daemon {

namespace {

constexpr unsigned extents_at_once = 64;

// The bytes at these places are not the file's bytes, or not yet.
constexpr std::uint32_t unusable_places = FIEMAP_EXTENT_UNKNOWN | FIEMAP_EXTENT_DELALLOC |
                                          FIEMAP_EXTENT_ENCODED | FIEMAP_EXTENT_DATA_ENCRYPTED |
                                          FIEMAP_EXTENT_NOT_ALIGNED | FIEMAP_EXTENT_DATA_INLINE |
                                          FIEMAP_EXTENT_DATA_TAIL | FIEMAP_EXTENT_UNWRITTEN;

std::int64_t result_of(ssize_t call) noexcept {
  return call < 0 ? -std::int64_t(errno) : std::int64_t(call);
}

}  // namespace

host_file::~host_file() { ::close(fd_); }

direct_file const& host_file::direct() const {
  std::lock_guard const lock{opening_};
  if (!direct_) direct_.emplace(fd_);
  return *direct_;
}

int host_file::status(struct ::stat& out) const noexcept {
  return ::fstat(fd_, &out) == 0 ? 0 : -errno;
}

std::int64_t host_file::read(std::span<std::byte> to, std::uint64_t offset) const noexcept {
  return result_of(::pread(fd_, to.data(), to.size(), off_t(offset)));
}

std::int64_t host_file::write(std::span<::iovec const> parts, std::uint64_t offset) const noexcept {
  return result_of(::pwritev(fd_, parts.data(), int(parts.size()), off_t(offset)));
}

int host_file::sync() const noexcept {
  // EINVAL: the file system has nothing that it could make durable. Not so EROFS, which a file
  // system gives that has become read-only at an error: bytes are lost.
  return ::fdatasync(fd_) == 0 || errno == EINVAL ? 0 : -errno;
}

int host_file::begin_sync(std::uint64_t offset, std::uint64_t length) const noexcept {
  return ::sync_file_range(fd_, off_t(offset), off_t(length), SYNC_FILE_RANGE_WRITE) == 0 ? 0
                                                                                          : -errno;
}

int host_file::end_writes() const noexcept {
  // The descriptor itself may be in use by a reader. The close of any descriptor of the open file
  // has the same effect. An interrupted close has closed it.
  int const copy = ::fcntl(fd_, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  if (copy < 0) return sync();  // no descriptor is left; this asks for the same errors
  return ::close(copy) == 0 || errno == EINTR ? 0 : -errno;
}

int host_file::truncate(std::uint64_t size) const noexcept {
  return ::ftruncate(fd_, off_t(size)) == 0 ? 0 : -errno;
}

int host_file::allocate(std::uint64_t offset, std::uint64_t length) const noexcept {
  return ::fallocate(fd_, FALLOC_FL_KEEP_SIZE, off_t(offset), off_t(length)) == 0 ? 0 : -errno;
}

int host_file::advise(std::int64_t offset, std::int64_t length, int advice) const noexcept {
  if (advice == POSIX_FADV_DONTNEED && offset >= 0 && length >= 0)  // 0: to the end
    view_.let_go(std::uint64_t(offset), length == 0 ? ~0ull : std::uint64_t(length));
  return -::posix_fadvise(fd_, offset, length, advice);
}

std::optional<std::vector<file_extent>> host_file::extents(std::uint64_t offset,
                                                           std::uint64_t length) const {
  std::vector<file_extent> all;
  auto const end = offset + length;
  alignas(::fiemap)
      std::byte memory[sizeof(::fiemap) + extents_at_once * sizeof(::fiemap_extent)] = {};
  auto& answer = *new (memory)::fiemap{};
  while (offset < end) {
    answer.fm_start = offset;
    answer.fm_length = end - offset;
    answer.fm_flags = FIEMAP_FLAG_SYNC;
    answer.fm_extent_count = extents_at_once;
    if (::ioctl(fd_, FS_IOC_FIEMAP, &answer) != 0) return std::nullopt;
    auto const count = answer.fm_mapped_extents;
    for (std::uint32_t i = 0; i < count; ++i) {
      auto const& e = answer.fm_extents[i];
      if ((e.fe_flags & unusable_places) != 0) return std::nullopt;
      auto const begin = std::max<std::uint64_t>(e.fe_logical, offset);
      auto const stop = std::min<std::uint64_t>(e.fe_logical + e.fe_length, end);
      if (begin < stop)
        all.push_back({begin, e.fe_physical + (begin - e.fe_logical), stop - begin});
    }
    if (count < extents_at_once) break;
    auto const& last = answer.fm_extents[count - 1];
    offset = std::max<std::uint64_t>(last.fe_logical + last.fe_length, offset + 1);
  }
  return all;
}

}  // namespace gpufs::daemon
