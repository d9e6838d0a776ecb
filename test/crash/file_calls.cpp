// Stands before the C library's functions that change files, and reports each call. Linked into a
// suite, or preloaded into a program. Syncs are reported and not carried out: what they promise is
// what the report is for, and they take long.
#include <test/crash/file_change.hpp>

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

namespace gpufs::test {

namespace {

template <class Function>
Function* behind_us(char const* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

// Paths are compared as they are written down, so `.` and `..` and links in folders are resolved.
std::string absolute(char const* path) {
  std::string const given = path;
  auto const slash = given.rfind('/');
  std::string const folder = slash == std::string::npos ? "." : given.substr(0, slash + 1);
  char resolved[PATH_MAX];
  if (::realpath(folder.c_str(), resolved) == nullptr) return given;
  return std::string(resolved) + "/" + given.substr(slash == std::string::npos ? 0 : slash + 1);
}

std::uint64_t inode_of(std::string const& path) {
  struct ::stat status {};
  return ::lstat(path.c_str(), &status) == 0 ? status.st_ino : 0;
}

std::uint64_t folder_inode(std::string const& path) {
  return inode_of(path.substr(0, path.rfind('/') + 1) + ".");
}

// Whether changes of this descriptor count: a file with a name, or a folder.
bool counts(int fd, struct ::stat& status) {
  return file_calls_wanted() && ::fstat(fd, &status) == 0 && status.st_nlink > 0 &&
         (S_ISREG(status.st_mode) || S_ISDIR(status.st_mode));
}

// Reports a call around what it does. The call's errno stays.
template <class Call>
auto report(file_change&& what, Call const& call) {
  auto const number = file_call_begins(std::move(what));
  auto const result = call();
  int const error = errno;
  file_call_ends(number, result < 0 ? -std::int64_t(error) : std::int64_t(result));
  errno = error;
  return result;
}

template <class Call>
ssize_t write_at(int fd, ::iovec const* parts, int count, std::int64_t offset, Call const& call) {
  struct ::stat status {};
  if (!counts(fd, status)) return call();
  if (offset < 0) {
    bool const appends = (::fcntl(fd, F_GETFL) & O_APPEND) != 0;
    offset = appends ? status.st_size : ::lseek(fd, 0, SEEK_CUR);
  }
  file_change what{.inode = status.st_ino, .offset = std::uint64_t(offset)};
  for (int i = 0; i < count; ++i) {
    auto const* const from = static_cast<std::byte const*>(parts[i].iov_base);
    what.data.insert(what.data.end(), from, from + parts[i].iov_len);
  }
  return report(std::move(what), call);
}

template <class Call>
int set_size(int fd, std::uint64_t size, Call const& call) {
  struct ::stat status {};
  if (!counts(fd, status)) return call();
  return report({.what = change::size, .inode = status.st_ino, .offset = size}, call);
}

template <class Call>
int sync(int fd, Call const& call) {
  struct ::stat status {};
  if (!counts(fd, status)) return call();
  return report({.what = change::sync, .inode = status.st_ino}, [] { return 0; });
}

// Reports that `path` has got a name, after it has.
template <class Call>
int name(char const* path, Call const& call) {
  int const result = call();
  if (result < 0 || !file_calls_wanted()) return result;
  auto const whole = absolute(path);
  return report({.what = change::put_name,
                 .inode = inode_of(whole),
                 .folder = folder_inode(whole),
                 .path = whole},
                [&] { return result; });
}

template <class Call>
int remove_name(char const* path, Call const& call) {
  if (!file_calls_wanted()) return call();
  auto const whole = absolute(path);
  return report({.what = change::remove_name,
                 .inode = inode_of(whole),
                 .folder = folder_inode(whole),
                 .path = whole},
                call);
}

template <class Call>
int move_name(char const* path, char const* to, Call const& call) {
  if (!file_calls_wanted()) return call();
  auto const from = absolute(path), there = absolute(to);
  return report({.what = change::move_name,
                 .inode = inode_of(from),
                 .folder = folder_inode(there),
                 .path = from,
                 .to = there},
                call);
}

// An open may make the file, or cut it.
template <class Call>
auto open_file(char const* path, int flags, Call const& call) {
  bool const makes = (flags & O_CREAT) != 0, cuts = (flags & O_TRUNC) != 0;
  if ((!makes && !cuts) || (flags & O_TMPFILE) == O_TMPFILE || !file_calls_wanted()) return call();
  struct ::stat before {};
  bool const there = ::stat(path, &before) == 0;
  if (there && (!cuts || !S_ISREG(before.st_mode))) return call();
  if (there) return report({.what = change::size, .inode = before.st_ino}, call);
  auto const fd = call();
  int const error = errno;
  if (fd >= 0) name(path, [] { return 0; });
  errno = error;
  return fd;
}

// Reports what a call has copied to `fd`, after it has.
ssize_t copied(int fd, std::int64_t begin, ssize_t result) {
  struct ::stat status {};
  if (result <= 0 || !counts(fd, status)) return result;
  file_change what{.inode = status.st_ino, .offset = std::uint64_t(begin)};
  what.data.resize(std::size_t(result));
  auto const link = "/proc/self/fd/" + std::to_string(fd);
  int const again = ::open(link.c_str(), O_RDONLY | O_CLOEXEC);
  if (again < 0 || ::pread(again, what.data.data(), what.data.size(), begin) != result)
    std::abort();
  ::close(again);
  return report(std::move(what), [&] { return result; });
}

int flags_of(char const* mode) {
  std::string_view const text = mode;
  return text.starts_with('w') ? O_CREAT | O_TRUNC : text.starts_with('a') ? O_CREAT : 0;
}

}  // namespace

extern "C" {

// Functions under the names of the C library's.
#define GPUFS_INSTEAD_OF(result, name, parameters)    \
  result instead_of_##name parameters __asm__(#name); \
  result instead_of_##name parameters

GPUFS_INSTEAD_OF(ssize_t, write, (int fd, void const* bytes, std::size_t count)) {
  static auto* const next = behind_us<decltype(instead_of_write)>("write");
  ::iovec const part{const_cast<void*>(bytes), count};
  return write_at(fd, &part, 1, -1, [&] { return next(fd, bytes, count); });
}

GPUFS_INSTEAD_OF(ssize_t, writev, (int fd, ::iovec const* parts, int count)) {
  static auto* const next = behind_us<decltype(instead_of_writev)>("writev");
  return write_at(fd, parts, count, -1, [&] { return next(fd, parts, count); });
}

GPUFS_INSTEAD_OF(ssize_t, pwrite, (int fd, void const* bytes, std::size_t count, off_t offset)) {
  static auto* const next = behind_us<decltype(instead_of_pwrite)>("pwrite");
  ::iovec const part{const_cast<void*>(bytes), count};
  return write_at(fd, &part, 1, offset, [&] { return next(fd, bytes, count, offset); });
}

GPUFS_INSTEAD_OF(ssize_t, pwrite64, (int fd, void const* bytes, std::size_t count, off_t offset)) {
  return instead_of_pwrite(fd, bytes, count, offset);
}

GPUFS_INSTEAD_OF(ssize_t, pwritev, (int fd, ::iovec const* parts, int count, off_t offset)) {
  static auto* const next = behind_us<decltype(instead_of_pwritev)>("pwritev");
  return write_at(fd, parts, count, offset, [&] { return next(fd, parts, count, offset); });
}

GPUFS_INSTEAD_OF(ssize_t, pwritev64, (int fd, ::iovec const* parts, int count, off_t offset)) {
  return instead_of_pwritev(fd, parts, count, offset);
}

GPUFS_INSTEAD_OF(ssize_t, sendfile, (int to, int from, off_t* offset, std::size_t count)) {
  static auto* const next = behind_us<decltype(instead_of_sendfile)>("sendfile");
  auto const begin = ::lseek(to, 0, SEEK_CUR);
  return copied(to, begin, next(to, from, offset, count));
}

GPUFS_INSTEAD_OF(ssize_t, sendfile64, (int to, int from, off_t* offset, std::size_t count)) {
  return instead_of_sendfile(to, from, offset, count);
}

GPUFS_INSTEAD_OF(ssize_t, copy_file_range,
                 (int from, off_t* at, int to, off_t* there, std::size_t count, unsigned flags)) {
  static auto* const next = behind_us<decltype(instead_of_copy_file_range)>("copy_file_range");
  auto const begin = there != nullptr ? *there : ::lseek(to, 0, SEEK_CUR);
  return copied(to, begin, next(from, at, to, there, count, flags));
}

GPUFS_INSTEAD_OF(int, ftruncate, (int fd, off_t size)) {
  static auto* const next = behind_us<decltype(instead_of_ftruncate)>("ftruncate");
  return set_size(fd, std::uint64_t(size), [&] { return next(fd, size); });
}

GPUFS_INSTEAD_OF(int, ftruncate64, (int fd, off_t size)) { return instead_of_ftruncate(fd, size); }

GPUFS_INSTEAD_OF(int, fsync, (int fd)) {
  static auto* const next = behind_us<decltype(instead_of_fsync)>("fsync");
  return sync(fd, [&] { return next(fd); });
}

GPUFS_INSTEAD_OF(int, fdatasync, (int fd)) {
  static auto* const next = behind_us<decltype(instead_of_fdatasync)>("fdatasync");
  return sync(fd, [&] { return next(fd); });
}

GPUFS_INSTEAD_OF(int, syncfs, (int fd)) {
  static auto* const next = behind_us<decltype(instead_of_syncfs)>("syncfs");
  if (!file_calls_wanted()) return next(fd);
  return report({.what = change::sync_all}, [] { return 0; });
}

GPUFS_INSTEAD_OF(int, open, (char const* path, int flags, mode_t mode)) {
  static auto* const next = behind_us<int(char const*, int, ...)>("open");
  return open_file(path, flags, [&] { return next(path, flags, mode); });
}

GPUFS_INSTEAD_OF(int, open64, (char const* path, int flags, mode_t mode)) {
  return instead_of_open(path, flags, mode);
}

GPUFS_INSTEAD_OF(FILE*, fopen, (char const* path, char const* mode)) {
  static auto* const next = behind_us<decltype(instead_of_fopen)>("fopen");
  FILE* stream = nullptr;
  open_file(path, flags_of(mode), [&] { return (stream = next(path, mode)) != nullptr ? 0 : -1; });
  return stream;
}

GPUFS_INSTEAD_OF(FILE*, fopen64, (char const* path, char const* mode)) {
  return instead_of_fopen(path, mode);
}

GPUFS_INSTEAD_OF(int, mkostemp, (char* path, int flags)) {
  static auto* const next = behind_us<decltype(instead_of_mkostemp)>("mkostemp");
  int const fd = next(path, flags);
  if (fd >= 0) name(path, [] { return 0; });
  return fd;
}

GPUFS_INSTEAD_OF(int, mkostemp64, (char* path, int flags)) {
  return instead_of_mkostemp(path, flags);
}

GPUFS_INSTEAD_OF(int, mkdir, (char const* path, mode_t mode)) {
  static auto* const next = behind_us<decltype(instead_of_mkdir)>("mkdir");
  return name(path, [&] { return next(path, mode); });
}

GPUFS_INSTEAD_OF(int, symlink, (char const* leads_to, char const* path)) {
  static auto* const next = behind_us<decltype(instead_of_symlink)>("symlink");
  return name(path, [&] { return next(leads_to, path); });
}

GPUFS_INSTEAD_OF(int, link, (char const* from, char const* path)) {
  static auto* const next = behind_us<decltype(instead_of_link)>("link");
  return name(path, [&] { return next(from, path); });
}

GPUFS_INSTEAD_OF(int, rename, (char const* from, char const* to)) {
  static auto* const next = behind_us<decltype(instead_of_rename)>("rename");
  return move_name(from, to, [&] { return next(from, to); });
}

GPUFS_INSTEAD_OF(int, renameat2,
                 (int from_folder, char const* from, int to_folder, char const* to,
                  unsigned flags)) {
  static auto* const next = behind_us<decltype(instead_of_renameat2)>("renameat2");
  return move_name(from, to, [&] { return next(from_folder, from, to_folder, to, flags); });
}

GPUFS_INSTEAD_OF(int, unlink, (char const* path)) {
  static auto* const next = behind_us<decltype(instead_of_unlink)>("unlink");
  return remove_name(path, [&] { return next(path); });
}

GPUFS_INSTEAD_OF(int, rmdir, (char const* path)) {
  static auto* const next = behind_us<decltype(instead_of_rmdir)>("rmdir");
  return remove_name(path, [&] { return next(path); });
}

GPUFS_INSTEAD_OF(int, remove, (char const* path)) {
  static auto* const next = behind_us<decltype(instead_of_remove)>("remove");
  return remove_name(path, [&] { return next(path); });
}

#undef GPUFS_INSTEAD_OF

}  // extern "C"

}  // namespace gpufs::test
