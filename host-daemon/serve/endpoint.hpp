// An endpoint: what one device shares with the daemon, and the daemon's side of it.
#pragma once

#include <gpufs/rpc/wire_format.hpp>

#include <host-daemon/device_work/transfer_engine.hpp>
#include <host-daemon/device_work/window_registrar.hpp>
#include <host-daemon/serve/request_queue.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>

namespace gpufs::daemon {

/// One device: the memory that it shares with the daemon, and the threads that work for it. Files,
/// their versions and the daemon's threads belong to no endpoint.
struct endpoint {
  /// `shared` must be filled in as rpc::shared_region says, and zeroed before first use.
  /// `copies`, if given: long reads are answered when their bytes are in GPU memory, or when it
  /// turns out that a pull is better.
  /// `registrar`, if given: is offered the windows that are read of files that are not written.
  endpoint(rpc::shared_region const& shared, transfer_engine* copies = nullptr,
           window_registrar* registrar = nullptr)  // NOLINT: a region alone is an endpoint
      : region{shared}, transfers{copies}, windows{registrar} {}

  rpc::shared_region region;
  transfer_engine* transfers;
  window_registrar* windows;
};

/// An endpoint as all daemon threads see it.
struct served_endpoint : endpoint {
  /// `threads`: the number of daemon threads.
  served_endpoint(endpoint const& e, unsigned threads) : endpoint{e} {
    // A claim leaves requests for the ring's own thread and for one that comes to help.
    auto const consumers = region.rings == 1 ? threads : std::min(threads, 2u);
    for (std::uint64_t i = 0; i < region.rings; ++i)
      rings.emplace_back(region.ring + i * region.slots, region.slots, consumers);
  }

  std::deque<request_queue> rings;
  /// Its requests are taken no more. Threads may still take the ones that they find while it is
  /// being set, so it orders nothing.
  std::atomic<bool> detached{false};
};

/// Of one endpoint and one daemon thread, which writes them; any thread reads. On cache lines of
/// their own.
struct alignas(64) endpoint_counters {
  std::atomic<std::uint64_t> requests{0}, failed{0}, rejected{0}, bytes_read{0}, bytes_direct{0},
      bytes_viewed{0}, bytes_copied{0}, reads_issued{0};
};

/// An endpoint as one daemon thread serves it.
struct thread_endpoint {
  explicit thread_endpoint(served_endpoint& e) : shared{e} {}

  served_endpoint& shared;
  std::size_t home = 0;     ///< the ring this thread looks at first
  std::size_t visit = 0;    ///< the ring it looked at last besides
  unsigned full_turns = 0;  ///< in which there was something at home, since it looked at another
  endpoint_counters counters;
};

/// A request, and the endpoint whose ring it came from.
struct taken_request : rpc::request {
  thread_endpoint* from = nullptr;

  [[nodiscard]] rpc::shared_region const& region() const noexcept { return from->shared.region; }
};

}  // namespace gpufs::daemon
