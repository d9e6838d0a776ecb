// Shared by the tests of reads past the OS page cache.
#pragma once

#include <host-daemon/backend/direct_file.hpp>
#include <host-daemon/serve/server.hpp>

#include <test/daemon/harness.hpp>

#include <doctest/doctest.h>

#include <cerrno>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

namespace gpufs::test {

inline daemon::server_settings with(io_backend backend, io_path path, unsigned threads = 1) {
  daemon::server_settings s;
  s.threads = threads;
  s.backend = backend;
  s.path = path;
  return s;
}

// A running daemon and a caller for each of 16 channels.
struct running_daemon {
  explicit running_daemon(daemon::server_settings settings,
                          daemon::fault_injector* faults = nullptr)
      : memory{16, 16, 4 << 20, 64},
        tickets{memory.region},
        server{memory.region, std::move(settings), faults} {
    for (std::uint32_t c = 0; c < 16; ++c) callers.emplace_back(memory.region, tickets, c);
    server.start();
  }
  region_memory memory;
  ticket_source tickets;
  std::vector<caller> callers;
  daemon::server server;
};

// Returns whether files at `path` can be read with O_DIRECT. Prints a message if not.
inline bool has_direct(std::string const& path) {
  int const fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  REQUIRE(fd >= 0);
  daemon::direct_file const twin{fd};
  if (!twin.usable()) MESSAGE("skipped: " << path << ": " << twin.why_not());
  ::close(fd);
  return twin.usable();
}

// Removes a file from the OS page cache. Prints a message if that fails.
inline bool make_cold(std::string const& path) {
  int const fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  REQUIRE(fd >= 0);
  ::fsync(fd);
  ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
  char byte = 0;
  ::iovec const to{&byte, 1};
  bool const cold = ::preadv2(fd, &to, 1, 0, RWF_NOWAIT) < 0 && errno == EAGAIN;
  ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);  // the question itself may have read the byte
  ::close(fd);
  if (!cold) MESSAGE("skipped: " << path << " stays in the OS page cache");
  return cold;
}

}  // namespace gpufs::test
