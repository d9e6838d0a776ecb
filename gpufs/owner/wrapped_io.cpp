// Where the linker leads a program's own I/O, if it asks for that by gpufs_wrap_io() of CMake.
// Memory that lies in no object goes to the true function at once.
//
// The linker leads the library's calls here, too. They name pinned memory and the library's own
// addresses of objects, so they go on as well. This file holds nothing that a program without
// wrappers needs.
#include <gpufs/mapping.hpp>
#include <gpufs/mapping/address_space.hpp>
#include <gpufs/owner/shared_io.hpp>
#include <gpufs/owner/wrapped_bytes.hpp>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>

#include <sys/types.h>

namespace gpufs::owner {

// The true functions have these names for the linker.
extern "C" {
ssize_t __real_read(int, void*, std::size_t);
ssize_t __real_write(int, void const*, std::size_t);
ssize_t __real_pread(int, void*, std::size_t, off_t);
ssize_t __real_pwrite(int, void const*, std::size_t, off_t);
ssize_t __real_pread64(int, void*, std::size_t, off_t);
ssize_t __real_pwrite64(int, void const*, std::size_t, off_t);
std::size_t __real_fread(void*, std::size_t, std::size_t, std::FILE*);
std::size_t __real_fwrite(void const*, std::size_t, std::size_t, std::FILE*);
std::size_t __real_fread_unlocked(void*, std::size_t, std::size_t, std::FILE*);
std::size_t __real_fwrite_unlocked(void const*, std::size_t, std::size_t, std::FILE*);
// What compilers make of them with _FORTIFY_SOURCE. The last number is the memory's size.
ssize_t __real___read_chk(int, void*, std::size_t, std::size_t);
ssize_t __real___pread_chk(int, void*, std::size_t, off_t, std::size_t);
ssize_t __real___pread64_chk(int, void*, std::size_t, off_t, std::size_t);
std::size_t __real___fread_chk(void*, std::size_t, std::size_t, std::size_t, std::FILE*);
}

namespace {

ssize_t with_errno(std::int64_t result) {
  if (result >= 0) return ssize_t(result);
  errno = int(-result);
  return -1;
}

// Memory that is only read is bad memory for read(2).
std::int64_t read_to_own(own_bytes const& own, transfer_end const& file, void* to,
                         std::uint64_t bytes) {
  auto const result = read_to(*own.space, file, to, bytes);
  return result == -EACCES ? -EFAULT : result;
}

// A file's bytes end with the object, as with the system at the end of valid memory.
template <class Real>
ssize_t read_bytes(descriptor const& file, void* to, std::size_t bytes, Real const& real) {
  auto const own = find_own(to, bytes);
  return own.space == nullptr ? real() : with_errno(read_to_own(own, file, to, own.count));
}
template <class Real>
ssize_t write_bytes(descriptor const& file, void const* from, std::size_t bytes, Real const& real) {
  auto const own = find_own(from, bytes);
  return own.space == nullptr ? real() : with_errno(write_from(*own.space, file, from, own.count));
}

/// A FILE, whose buffer holds what comes first. The true functions see to that.
class stdio final : public transfer_end {
 public:
  explicit stdio(std::FILE* file) : file_(file) {}
  std::int64_t read(void* to, std::uint64_t bytes, std::uint64_t) const override {
    return std::int64_t(__real_fread_unlocked(to, 1, bytes, file_));
  }
  std::int64_t write(void const* from, std::uint64_t bytes, std::uint64_t) const override {
    return std::int64_t(__real_fwrite_unlocked(from, 1, bytes, file_));
  }
  bool may_give_less() const override { return false; }

 private:
  std::FILE* file_;
};

class file_lock {
 public:
  file_lock(std::FILE* file, bool locks) : file_(locks ? file : nullptr) {
    if (file_ != nullptr) ::flockfile(file_);
  }
  ~file_lock() {
    if (file_ != nullptr) ::funlockfile(file_);
  }
  file_lock(file_lock const&) = delete;
  file_lock& operator=(file_lock const&) = delete;

 private:
  std::FILE* file_;
};

// As a FILE has it after a failed system call.
void note_error(std::FILE* file, int error) {
#if defined(_IO_ERR_SEEN)
  file->_flags |= _IO_ERR_SEEN;
#else
  static_cast<void>(file);
#endif
  errno = error;
}

// Bytes of own memory that have moved. `move` moves [done, own.count).
template <class Move>
std::uint64_t move_items(own_bytes const& own, std::FILE* file, Move const& move) {
  std::uint64_t done = 0;
  while (done < own.count) {
    auto const wanted = std::min(own.count - done, most_io_bytes);
    std::int64_t const n = move(done, wanted);
    if (n < 0) note_error(file, int(-n));
    if (n <= 0) break;
    done += std::uint64_t(n);
    if (std::uint64_t(n) == wanted) continue;
    // The device's error comes with the next call, which a FILE's user does not make.
    if (!std::feof(file) && !std::ferror(file)) note_error(file, EIO);
    break;
  }
  return done;
}

template <class Real>
std::size_t read_items(void* to, std::size_t size, std::size_t count, std::FILE* file, bool locks,
                       Real const& real) {
  std::size_t bytes = 0;
  if (__builtin_mul_overflow(size, count, &bytes)) return real(to, size, count);
  auto const own = find_own(to, bytes);
  if (own.space == nullptr) return real(to, size, count);
  auto* const target = static_cast<std::byte*>(to);
  // A kernel may print (emulated device), so no wait for calls with the lock.
  own.space->wait_for_use(own.space->offset_of(target), own.count, true);
  file_lock const lock(file, locks);
  stdio const from(file);
  auto done = move_items(own, file, [&](std::uint64_t at, std::uint64_t wanted) {
    return read_to_own(own, from, target + at, wanted);
  });
  if (done == own.count && done < bytes) done += real(target + done, 1, bytes - done);
  return done / size;
}

template <class Real>
std::size_t write_items(void const* from, std::size_t size, std::size_t count, std::FILE* file,
                        bool locks, Real const& real) {
  std::size_t bytes = 0;
  if (__builtin_mul_overflow(size, count, &bytes)) return real(from, size, count);
  auto const own = find_own(from, bytes);
  if (own.space == nullptr) return real(from, size, count);
  auto const* const source = static_cast<std::byte const*>(from);
  own.space->wait_for_use(own.space->offset_of(source), own.count, false);
  file_lock const lock(file, locks);
  stdio const to(file);
  auto done = move_items(own, file, [&](std::uint64_t at, std::uint64_t wanted) {
    return write_from(*own.space, to, source + at, wanted);
  });
  if (done == own.count && done < bytes) done += real(source + done, 1, bytes - done);
  return done / size;
}

}  // namespace

extern "C" {

extern char const gpufs_io_is_wrapped;
char const gpufs_io_is_wrapped = 1;

ssize_t __wrap_read(int fd, void* to, std::size_t bytes) {
  return read_bytes({fd, {}}, to, bytes, [&] { return __real_read(fd, to, bytes); });
}
ssize_t __wrap_write(int fd, void const* from, std::size_t bytes) {
  return write_bytes({fd, {}}, from, bytes, [&] { return __real_write(fd, from, bytes); });
}
ssize_t __wrap_pread(int fd, void* to, std::size_t bytes, off_t at) {
  return read_bytes({fd, at}, to, bytes, [&] { return __real_pread(fd, to, bytes, at); });
}
ssize_t __wrap_pwrite(int fd, void const* from, std::size_t bytes, off_t at) {
  return write_bytes({fd, at}, from, bytes, [&] { return __real_pwrite(fd, from, bytes, at); });
}
ssize_t __wrap_pread64(int fd, void* to, std::size_t bytes, off_t at) {
  return read_bytes({fd, at}, to, bytes, [&] { return __real_pread64(fd, to, bytes, at); });
}
ssize_t __wrap_pwrite64(int fd, void const* from, std::size_t bytes, off_t at) {
  return write_bytes({fd, at}, from, bytes, [&] { return __real_pwrite64(fd, from, bytes, at); });
}

std::size_t __wrap_fread(void* to, std::size_t size, std::size_t count, std::FILE* file) {
  return read_items(to, size, count, file, true, [&](void* t, std::size_t s, std::size_t n) {
    return __real_fread(t, s, n, file);
  });
}
std::size_t __wrap_fread_unlocked(void* to, std::size_t size, std::size_t count, std::FILE* file) {
  return read_items(to, size, count, file, false, [&](void* t, std::size_t s, std::size_t n) {
    return __real_fread_unlocked(t, s, n, file);
  });
}
std::size_t __wrap_fwrite(void const* from, std::size_t size, std::size_t count, std::FILE* file) {
  return write_items(
      from, size, count, file, true,
      [&](void const* f, std::size_t s, std::size_t n) { return __real_fwrite(f, s, n, file); });
}
std::size_t __wrap_fwrite_unlocked(void const* from, std::size_t size, std::size_t count,
                                   std::FILE* file) {
  return write_items(from, size, count, file, false,
                     [&](void const* f, std::size_t s, std::size_t n) {
                       return __real_fwrite_unlocked(f, s, n, file);
                     });
}

// Those of _FORTIFY_SOURCE end the program if the memory is too small.
ssize_t __wrap___read_chk(int fd, void* to, std::size_t bytes, std::size_t room) {
  return bytes > room ? __real___read_chk(fd, to, bytes, room) : __wrap_read(fd, to, bytes);
}
ssize_t __wrap___pread_chk(int fd, void* to, std::size_t bytes, off_t at, std::size_t room) {
  return bytes > room ? __real___pread_chk(fd, to, bytes, at, room)
                      : __wrap_pread(fd, to, bytes, at);
}
ssize_t __wrap___pread64_chk(int fd, void* to, std::size_t bytes, off_t at, std::size_t room) {
  return bytes > room ? __real___pread64_chk(fd, to, bytes, at, room)
                      : __wrap_pread64(fd, to, bytes, at);
}
std::size_t __wrap___fread_chk(void* to, std::size_t room, std::size_t size, std::size_t count,
                               std::FILE* file) {
  return read_items(to, size, count, file, true, [&](void* t, std::size_t s, std::size_t n) {
    return __real___fread_chk(t, room, s, n, file);
  });
}
}  // extern "C"

}  // namespace gpufs::owner
