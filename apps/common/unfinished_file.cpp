#include <apps/common/durable.hpp>
#include <apps/common/unfinished_file.hpp>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <random>
#include <stdexcept>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace gpufs::apps {

namespace {

[[noreturn]] void refuse(int error, std::string const& path) {
  throw std::system_error(error, std::generic_category(), path);
}

/// Renames a file unless the new name is taken. Returns 0, or -1 and errno.
int rename_to_free_name(char const* from, char const* to) {
  if (::renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0) return 0;
  if (errno != EINVAL) return -1;
  return ::link(from, to);  // a file system without that flag; the old name goes in the end
}

/// A descriptor of this process's output that leads to the same file, or -1.
int output_that_is(struct ::stat const& file) {
  for (int const fd : {STDOUT_FILENO, STDERR_FILENO}) {
    struct ::stat own {};
    if (::fstat(fd, &own) == 0 && own.st_dev == file.st_dev && own.st_ino == file.st_ino) return fd;
  }
  return -1;
}

/// Whether a name stands for something that is open (/dev/stdout, /dev/fd/3) or that is no regular
/// file. A new file in its place would be lost to those who read it, and take what it has.
bool is_written_to(std::string const& path, struct ::stat const& there) {
  if (!S_ISREG(there.st_mode) || output_that_is(there) >= 0) return true;
  std::error_code ignored;
  auto const folder = std::filesystem::canonical(folder_of(path), ignored).string();
  return folder.starts_with("/proc/");
}

/// Opens what is_written_to(). Returns the descriptor, or -1 with errno.
int open_for_appending(std::string const& path, struct ::stat const& there) {
  int const own = output_that_is(there);
  if (own < 0) return ::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  std::fflush(own == STDOUT_FILENO ? stdout : stderr);
  return ::fcntl(own, F_DUPFD_CLOEXEC, 0);  // an open of its own would begin at the first byte
}

/// Writes all of it and closes the descriptor. Returns 0 or errno.
int write_and_close(int fd, std::string_view bytes) {
  int error = 0;
  while (!bytes.empty() && error == 0) {
    ssize_t const put = ::write(fd, bytes.data(), bytes.size());
    if (put >= 0)
      bytes.remove_prefix(std::size_t(put));
    else if (errno != EINTR)
      error = errno;
  }
  if (::close(fd) != 0 && error == 0 && errno != EINTR) error = errno;
  return error;
}

}  // namespace

unfinished_file::unfinished_file(std::string path) : path_(std::move(path)) {
  struct ::stat there {};
  if (::stat(path_.c_str(), &there) == 0) {
    if (!S_ISREG(there.st_mode)) throw std::runtime_error(path_ + ": must be a regular file");
    path_ = std::filesystem::canonical(path_).string();
    mode_ = there.st_mode & 07777;
  }
  std::random_device random;
  int fd = -1;
  do {
    std::uint64_t const number = std::uint64_t(random()) << 32 | random();
    part_ = path_ + ".part-" + std::to_string(number);
    // O_EXCL: never a file or a link that another process has put there.
    fd = ::open(part_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
  } while (fd < 0 && errno == EEXIST);
  if (fd < 0) refuse(errno, part_);
  // Nobody may read it who may not read the old one.
  int const error = mode_ && ::fchmod(fd, *mode_ | S_IRUSR | S_IWUSR) != 0 ? errno : 0;
  ::close(fd);
  if (error == 0) return;
  ::unlink(part_.c_str());
  refuse(error, part_);
}

unfinished_file::~unfinished_file() { ::unlink(part().c_str()); }

int unfinished_file::open_part() const {
  return ::open(part_.c_str(), O_WRONLY | O_TRUNC | O_NOFOLLOW | O_CLOEXEC);
}

void unfinished_file::make_durable() const {
  int const fd = ::open(part().c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) refuse(errno, part());
  auto const error = mode_ && ::fchmod(fd, *mode_) != 0
                         ? std::error_code(errno, std::generic_category())
                         : apps::make_durable(fd);
  ::close(fd);
  if (error) throw std::system_error(error, part());
}

void unfinished_file::put_in_place(replace old) const {
  make_durable();
  int const renamed = old == replace::yes ? ::rename(part().c_str(), path_.c_str())
                                          : rename_to_free_name(part().c_str(), path_.c_str());
  if (renamed != 0) refuse(errno, path_);
  if (auto const error = make_folder_durable(folder_of(path_)))
    throw std::system_error(error, path_);
}

void write_whole_file(std::string const& path, std::string_view bytes,
                      unfinished_file::replace old) {
  struct ::stat there {};
  if (::stat(path.c_str(), &there) == 0 && is_written_to(path, there)) {
    if (old == unfinished_file::replace::no) refuse(EEXIST, path);
    int const fd = open_for_appending(path, there);
    int const error = fd < 0 ? errno : write_and_close(fd, bytes);
    if (error != 0) refuse(error, path);
    return;
  }
  unfinished_file const file(path);
  int const fd = file.open_part();
  if (int const error = fd < 0 ? errno : write_and_close(fd, bytes); error != 0)
    refuse(error, path);
  file.put_in_place(old);
}

}  // namespace gpufs::apps
