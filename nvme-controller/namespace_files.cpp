// Namespaces whose blocks lie in a file or a block device.
#include <nvme-controller/block_namespace.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <string>
#include <system_error>

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

namespace gpufs::nvme_controller {

namespace {

namespace status = nvme::status;

constexpr std::size_t most_parts = 256;  // of one system call
constexpr std::uint64_t direct_alignment = 4096;

std::uint16_t write_status(int error) {
  switch (error) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG: return status::capacity_exceeded;
    case EROFS:
    case EPERM: return status::write_to_read_only;
    default: return status::write_fault;
  }
}

[[noreturn]] void refuse(int error, std::filesystem::path const& path, char const* what) {
  throw std::system_error{error, std::generic_category(),
                          std::string{"nvme: "} + path.string() + ": " + what};
}

bool may_be_member(struct ::stat const& seen) {
  return S_ISREG(seen.st_mode) || S_ISBLK(seen.st_mode);
}

[[noreturn]] void refuse_kind(std::filesystem::path const& path) {
  throw std::invalid_argument{"nvme: " + path.string() +
                              ": must be a regular file or a block device"};
}

// To open a pipe waits for its writer, and devices of other kinds may do more. Why a folder cannot
// be opened the system says.
void check_kind(std::filesystem::path const& path) {
  struct ::stat seen {};
  if (::stat(path.c_str(), &seen) == 0 && !may_be_member(seen) && !S_ISDIR(seen.st_mode))
    refuse_kind(path);
}

std::uint64_t size_of(int fd, std::filesystem::path const& path) {
  struct stat seen {};
  if (::fstat(fd, &seen) != 0) refuse(errno, path, "cannot be looked at");
  std::uint64_t bytes = static_cast<std::uint64_t>(seen.st_size);
  if (!may_be_member(seen)) refuse_kind(path);
  if (S_ISBLK(seen.st_mode) && ::ioctl(fd, BLKGETSIZE64, &bytes) != 0)
    refuse(errno, path, "its size is unknown");
  if (bytes == 0)
    throw std::invalid_argument{"nvme: " + path.string() + ": is empty, give it its size first"};
  return bytes;
}

/// Moves the first `bytes` bytes of the parts by calls of `io(iovec const*, int, off_t)`. Returns 0
/// or the errno. `moved` counts the bytes; it stays below `bytes` at the end of the file.
template <class Io>
int move_parts(std::uint64_t offset, std::span<segment const> parts, std::uint64_t bytes, Io io,
               std::uint64_t& moved) {
  std::size_t part = 0;
  std::uint64_t within = 0;
  while (moved < bytes) {
    std::array<::iovec, most_parts> list;
    std::size_t count = 0;
    std::uint64_t asked = 0;
    for (std::size_t p = part; p < parts.size() && count < most_parts && moved + asked < bytes;
         ++p) {
      std::uint64_t const skip = p == part ? within : 0;
      std::uint64_t const here = std::min(parts[p].bytes - skip, bytes - moved - asked);
      list[count++] = {parts[p].memory + skip, here};
      asked += here;
    }
    ::ssize_t const got =
        io(list.data(), static_cast<int>(count), static_cast<::off_t>(offset + moved));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return errno;
    if (got == 0) return 0;
    moved += static_cast<std::uint64_t>(got);
    for (auto left = static_cast<std::uint64_t>(got); left > 0;) {
      std::uint64_t const here = std::min(left, parts[part].bytes - within);
      left -= here;
      within += here;
      if (within == parts[part].bytes) ++part, within = 0;
    }
  }
  return 0;
}

/// Zeroes what lies behind the first `skip` bytes of the parts.
void zero_behind(std::span<segment const> parts, std::uint64_t skip) {
  for (segment const& part : parts) {
    std::uint64_t const here = std::min(skip, part.bytes);
    std::memset(part.memory + here, 0, part.bytes - here);
    skip -= here;
  }
}

std::uint64_t bytes_of(std::span<segment const> parts) {
  std::uint64_t sum = 0;
  for (segment const& part : parts) sum += part.bytes;
  return sum;
}

}  // namespace

file_namespace::file_namespace(std::filesystem::path const& path, std::uint32_t lba_bytes, mode how,
                               page_cache cache)
    : lba_{lba_bytes}, read_only_{how == mode::read_only} {
  if (lba_ != 512 && lba_ != 4096)
    throw std::invalid_argument{"nvme: blocks of " + std::to_string(lba_) +
                                " bytes, 512 or 4096 are possible"};
  check_kind(path);
  fd_ = ::open(path.c_str(), (read_only_ ? O_RDONLY : O_RDWR) | O_CLOEXEC);
  if (fd_ < 0) refuse(errno, path, "cannot be opened");
  try {
    size_ = size_of(fd_, path);
    if (!read_only_ && ::flock(fd_, LOCK_EX | LOCK_NB) != 0)
      refuse(errno, path, "is in use for writing, close the other user first");
    if (cache == page_cache::past) {
      // The path may lead to another file by now.
      auto const same = "/proc/self/fd/" + std::to_string(fd_);
      direct_fd_ = ::open(same.c_str(), (read_only_ ? O_RDONLY : O_RDWR) | O_CLOEXEC | O_DIRECT);
      if (direct_fd_ < 0)
        refuse(errno, path, "its file system does not allow O_DIRECT, use its page cache");
    } else {
      view_ = std::make_unique<daemon::file_view>(fd_);
    }
  } catch (...) {
    if (!read_only_) ::flock(fd_, LOCK_UN);  // as in the destructor
    ::close(fd_);
    throw;
  }
}

file_namespace::~file_namespace() {
  view_.reset();
  // A child of fork() may have the descriptor, and with it the lock.
  if (!read_only_) ::flock(fd_, LOCK_UN);
  ::close(fd_);
  if (direct_fd_ >= 0) ::close(direct_fd_);
}

// The kernel keeps both descriptors coherent: it writes pages back before it reads past them, and
// drops them when it writes past them.
int file_namespace::descriptor_for(std::uint64_t offset, std::span<segment const> parts) const {
  if (direct_fd_ < 0 || offset % direct_alignment != 0) return fd_;
  std::uint64_t end = offset;
  for (segment const& part : parts) {
    auto const at = reinterpret_cast<std::uintptr_t>(part.memory);
    if (at % direct_alignment != 0 || part.bytes % direct_alignment != 0) return fd_;
    end += part.bytes;
  }
  return end <= size_ ? direct_fd_ : fd_;
}

// The rest after a short transfer may not be aligned any more.
int file_namespace::descriptor_at(int fd, std::int64_t at) const {
  return at % std::int64_t{direct_alignment} == 0 ? fd : fd_;
}

int file_namespace::descriptor_of_read(std::uint64_t offset, std::span<segment const> to) const {
  int const fd = descriptor_for(offset, to);
  return fd == direct_fd_ ? fd : -1;
}

// The size is fixed, so the file has one version. If it is cut all the same, the copy fails, and
// preadv finds the end. But in the page with the new end zeros follow it, and the copy succeeds.
bool file_namespace::copy(std::uint64_t offset, std::span<segment const> to) const {
  auto const bytes = bytes_of(to);
  if (view_ == nullptr || bytes > daemon::file_view::longest_copy || bytes > size_ - offset)
    return false;
  for (segment const& part : to) {
    if (!view_->copy({part.memory, part.bytes}, offset, 1, {})) return false;
    offset += part.bytes;
  }
  if (to.empty() || to.back().memory[to.back().bytes - 1] != std::byte{0}) return true;
  struct ::stat now {};
  return ::fstat(fd_, &now) == 0 && (!S_ISREG(now.st_mode) || std::uint64_t(now.st_size) >= offset);
}

std::uint16_t file_namespace::read(std::uint64_t offset, std::span<segment const> to) {
  if (copy(offset, to)) return status::success;
  std::uint64_t const wanted = std::min(bytes_of(to), size_ - offset);
  std::uint64_t moved = 0;
  int const fd = descriptor_for(offset, to);
  auto const io = [this, fd](::iovec const* list, int count, ::off_t at) {
    return ::preadv(descriptor_at(fd, at), list, count, at);
  };
  if (move_parts(offset, to, wanted, io, moved) != 0) return status::unrecovered_read;
  // Somebody has cut the file. Another replica may have the bytes.
  if (moved < wanted) return status::unrecovered_read;
  zero_behind(to, moved);
  return status::success;
}

std::uint16_t file_namespace::write(std::uint64_t offset, std::span<segment const> from) {
  if (read_only_) return status::write_to_read_only;
  std::uint64_t const wanted = std::min(bytes_of(from), size_ - offset);
  std::uint64_t moved = 0;
  int const fd = descriptor_for(offset, from);
  auto const io = [this, fd](::iovec const* list, int count, ::off_t at) {
    return ::pwritev(descriptor_at(fd, at), list, count, at);
  };
  if (int const error = move_parts(offset, from, wanted, io, moved); error != 0)
    return write_status(error);
  return moved == wanted ? status::success : status::write_fault;
}

std::uint16_t file_namespace::write_zeroes(std::uint64_t offset, std::uint64_t bytes) {
  std::array<std::byte, 65536> zeros{};
  while (bytes > 0) {
    std::uint64_t const here = std::min<std::uint64_t>(bytes, zeros.size());
    segment const part{zeros.data(), here};
    if (std::uint16_t const code = write(offset, {&part, 1}); code != status::success) return code;
    offset += here;
    bytes -= here;
  }
  return status::success;
}

std::uint16_t file_namespace::flush() {
  if (read_only_) return status::success;
  return ::fdatasync(fd_) == 0 ? status::success : write_status(errno);
}

}  // namespace gpufs::nvme_controller
