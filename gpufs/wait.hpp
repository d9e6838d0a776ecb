// The one way device code waits: bounded by the filesystem's timeout, ended by the daemon's stop,
// backing off in between.
#pragma once

#include <gpufs/device.hpp>
#include <gpufs/fs_ref.hpp>
#include <gpufs/warp.hpp>

#include <cerrno>
#include <cstdint>

namespace gpufs {

/// True once the daemon has announced that it answers no more.
__device__ __forceinline__ bool daemon_stopped(fs_ref const& fs) {
  // Pairs with the release in daemon::server::stop(). Nothing is read because of it, so relaxed
  // suffices.
  rpc::stop_flag& flag = fs.shared.control->stop[warp_number() % rpc::stop_flags];
  return atomic_ref<std::uint64_t, scope::system>(flag.stopped).load(memory_order_relaxed) != 0;
}

/// Longest pauses between two looks at what device code or the daemon changes. A look at host
/// memory crosses the bus, where it competes with the data: some thousand warps that each look
/// every few microseconds would take most of it.
inline constexpr unsigned device_pause_ns = 4096;
inline constexpr unsigned host_pause_ns = 32768;

/// Waits until `pred()` holds. Called by one thread (others of its warp wait for it at the next
/// warp operation). Returns 0, or -EIO when the daemon has stopped, or -ETIMEDOUT after
/// config::rpc_timeout_ms. `pred` is asked once more before either error.
template <class Predicate>
__device__ __forceinline__ int spin_until(fs_ref const& fs, unsigned longest_pause_ns,
                                          Predicate&& pred) {
  if (pred()) return 0;
  std::uint64_t const start = device_clock_ns();
  unsigned pause = 0;
  for (unsigned round = 1;; ++round) {
    backoff(pause, longest_pause_ns);
    if (pred()) return 0;
    if (round % 16 != 0) continue;  // the stop flag lies across the bus: look at it rarely
    if (daemon_stopped(fs)) return pred() ? 0 : -EIO;
    if (device_clock_ns() - start > fs.timeout_ns) return pred() ? 0 : -ETIMEDOUT;
  }
}

/// The same for a condition that a whole warp establishes: `pred`, called by all lanes, gives all
/// of them the same answer.
template <class Predicate>
__device__ __forceinline__ int warp_spin_until(fs_ref const& fs, Predicate&& pred) {
  if (pred()) return 0;
  std::uint64_t const start = device_clock_ns();
  unsigned pause = 0;
  for (unsigned round = 1;; ++round) {
    backoff(pause, device_pause_ns);
    if (pred()) return 0;
    if (round % 16 != 0) continue;
    int error = 0;
    if (lane_id() == 0)
      error = daemon_stopped(fs)                          ? -EIO
              : device_clock_ns() - start > fs.timeout_ns ? -ETIMEDOUT
                                                          : 0;
    error = warp_broadcast(error);
    if (error != 0) return pred() ? 0 : error;
  }
}

}  // namespace gpufs
