// Daemons in plain memory, with callers, for suites that use the daemon as a whole.
#pragma once

#include <host-daemon/serve/server.hpp>

#include <test/daemon/harness.hpp>

#include <cstdint>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

namespace gpufs::test {

inline daemon::server_settings with(io_backend backend, unsigned threads = 2) {
  daemon::server_settings s;
  s.threads = threads;
  s.backend = backend;
  return s;
}

inline bool mentions(std::vector<std::string> const& notes, std::string_view text) {
  for (auto const& n : notes)
    if (n.find(text) != std::string::npos) return true;
  return false;
}

// Runs `make`. Returns the message of the exception that it throws, or "".
template <class Make>
std::string message_of(Make const& make) {
  try {
    make();
  } catch (std::exception const& e) {
    return e.what();
  }
  return {};
}

// A running daemon and a caller for each channel.
struct running_daemon {
  explicit running_daemon(io_backend backend, daemon::fault_injector* faults = nullptr,
                          unsigned threads = 2, std::uint64_t channels = 16)
      : memory{16, channels, 4 << 20, 64},
        tickets{memory.region},
        server{memory.region, settings(backend, threads), faults} {
    for (std::uint32_t c = 0; c < channels; ++c) callers.emplace_back(memory.region, tickets, c);
    server.start();
  }

  static daemon::server_settings settings(io_backend backend, unsigned threads) {
    daemon::server_settings s;
    s.threads = threads;
    s.backend = backend;
    s.queue_depth = 8;
    // Direct reads may touch more than they were asked for: daemon_direct_test.
    s.path = gpufs::io_path::pull;
    return s;
  }

  region_memory memory;
  ticket_source tickets;
  std::vector<caller> callers;
  daemon::server server;
};

}  // namespace gpufs::test
