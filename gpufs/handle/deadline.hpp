// Bounded waits of device code: until a condition holds, the daemon stops, or the timeout passes.
#pragma once

#include <gpufs/base/warp.hpp>
#include <gpufs/device.hpp>
#include <gpufs/fs_ref.hpp>

#include <cerrno>
#include <cstdint>

namespace gpufs::handle {

using namespace base;

/// Returns true once the daemon has announced that it answers no more. Any thread calls.
__device__ __forceinline__ bool daemon_stopped(fs_ref const& fs) {
  // Set by daemon::server::stop(). Relaxed suffices: the flag announces no other data.
  rpc::stop_flag& flag = fs.link.shared.control->stop[warp_number() % rpc::stop_flags];
  return atomic_ref<std::uint64_t, scope::system>(flag.stopped).load(memory_order_relaxed) != 0;
}

/// Whether config::rpc_timeout_ms has passed since `start`, a value of device_clock_ns(), or one of
/// `parts` of that time. Any thread calls. The comparison is signed: the clock may step back by a
/// nanosecond.
__device__ __forceinline__ bool past_deadline(fs_ref const& fs, std::uint64_t start,
                                              std::uint64_t parts = 1) {
  return static_cast<std::int64_t>(device_clock_ns() - start) >
         static_cast<std::int64_t>(fs.link.timeout_ns / parts);
}

/// Why a wait that began at `start` must end: -EIO if the daemon has stopped, `late` past the
/// deadline, or 0. One thread calls. The stop flag lies across the bus: look rarely.
__device__ __forceinline__ std::int32_t wait_error(fs_ref const& fs, std::uint64_t start,
                                                   std::int32_t late = -ETIMEDOUT) {
  return daemon_stopped(fs) ? -EIO : past_deadline(fs, start) ? late : 0;
}

/// Longest pause between two looks at words that device code or the daemon changes. A look at host
/// memory crosses the bus and competes with the data. If thousands of warps looked every few
/// microseconds, they would take most of the bus.
inline constexpr unsigned device_pause_ns = 4096;
inline constexpr unsigned host_pause_ns = 32768;

/// Waits until `pred()` holds. One thread calls; the other lanes wait at the next warp operation.
/// Returns 0, -EIO if the daemon has stopped, or -ETIMEDOUT after config::rpc_timeout_ms. Before
/// either error `pred` is asked once more.
template <class Predicate>
__device__ __forceinline__ int spin_until(fs_ref const& fs, unsigned longest_pause_ns,
                                          Predicate&& pred) {
  if (pred()) return 0;
  std::uint64_t const start = device_clock_ns();
  unsigned pause = 0;
  for (unsigned round = 1;; ++round) {
    backoff(pause, longest_pause_ns);
    if (pred()) return 0;
    if (round % 16 != 0) continue;
    if (int const error = wait_error(fs, start); error != 0) return pred() ? 0 : error;
  }
}

/// The same for a condition of a full warp. All lanes call, and `pred` must answer the same in all.
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
    if (lane_id() == 0) error = wait_error(fs, start);
    error = warp_broadcast(error);
    if (error != 0) return pred() ? 0 : error;
  }
}

}  // namespace gpufs::handle
