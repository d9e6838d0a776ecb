// Shared by the tests of reads past the OS page cache.
#pragma once

#include <host-daemon/backend/direct_file.hpp>
#include <host-daemon/serve/server.hpp>

#include <test/daemon/harness.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>
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
  // Not by preadv2(): the question itself may begin to read, and ends when it likes.
  constexpr std::size_t page = 4096;
  void* const at = ::mmap(nullptr, page, PROT_READ, MAP_SHARED, fd, 0);
  REQUIRE(at != MAP_FAILED);
  unsigned char there = 1;
  bool const cold = ::mincore(at, page, &there) == 0 && (there & 1) == 0;
  ::munmap(at, page);
  ::close(fd);
  if (!cold) MESSAGE("skipped: " << path << " stays in the OS page cache");
  return cold;
}

}  // namespace gpufs::test
