// Preloaded into a program with file_calls.cpp: appends each change to the file that
// GPUFS_CHANGE_LOG names. A record is one write, so that threads and processes can share the file.
#include <test/crash/file_change.hpp>
#include <test/crash/log_format.hpp>

#include <atomic>
#include <cstdlib>

#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

namespace gpufs::test {

namespace {

// By the system calls themselves: the functions are reported.
int log_file() {
  static int const fd = [] {
    char const* const path = std::getenv("GPUFS_CHANGE_LOG");
    return path == nullptr ? -1
                           : int(::syscall(SYS_openat, AT_FDCWD, path,
                                           O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644));
  }();
  return fd;
}

void put(log_record const& r, file_change const* c) {
  ::iovec parts[4] = {{const_cast<log_record*>(&r), sizeof r}, {}, {}, {}};
  std::int64_t bytes = sizeof r;
  if (c != nullptr) {
    parts[1] = {const_cast<char*>(c->path.data()), c->path.size()};
    parts[2] = {const_cast<char*>(c->to.data()), c->to.size()};
    parts[3] = {const_cast<std::byte*>(c->data.data()), c->data.size()};
    bytes += std::int64_t(r.path_bytes + r.to_bytes + r.data_bytes);
  }
  if (::syscall(SYS_writev, log_file(), parts, c != nullptr ? 4 : 1) != bytes) std::abort();
}

}  // namespace

bool file_calls_wanted() noexcept { return log_file() >= 0; }

std::uint64_t file_call_begins(file_change&& c) {
  static std::atomic<std::uint32_t> calls{0};
  auto const number = std::uint64_t(::getpid()) << 32 | calls.fetch_add(1);
  put({.what = std::uint32_t(c.what),
       .path_bytes = std::uint32_t(c.path.size()),
       .to_bytes = std::uint32_t(c.to.size()),
       .reserved = 0,
       .number = number,
       .inode = c.inode,
       .folder = c.folder,
       .offset = c.offset,
       .data_bytes = c.data.size(),
       .result = 0},
      &c);
  return number;
}

void file_call_ends(std::uint64_t number, std::int64_t result) {
  put({.what = log_record::ends,
       .path_bytes = 0,
       .to_bytes = 0,
       .reserved = 0,
       .number = number,
       .inode = 0,
       .folder = 0,
       .offset = 0,
       .data_bytes = 0,
       .result = result},
      nullptr);
}

}  // namespace gpufs::test
