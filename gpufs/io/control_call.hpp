// Requests over control channels: one warp sends one and waits for the answer.
#pragma once

#include <gpufs/device.hpp>
#include <gpufs/fs_ref.hpp>
#include <gpufs/handle/counters.hpp>
#include <gpufs/ring/channel.hpp>
#include <gpufs/ring/submit.hpp>

#include <cerrno>
#include <climits>
#include <cstddef>
#include <cstdint>

namespace gpufs::io {

using namespace base;

/// The length of a string, at most `limit`. All lanes of a warp call.
__device__ __forceinline__ std::uint32_t warp_strlen(char const* text, std::uint32_t limit) {
  for (std::uint32_t at = 0; at < limit;) {
    // One lane reads byte by byte: no lane may read beyond the terminator.
    std::uint32_t step = 0;
    if (lane_id() == 0) {
      while (step < 256 && at + step < limit && text[at + step] != 0) ++step;
    }
    step = warp_broadcast(step);
    at += step;
    if (step < 256) return at;
  }
  return limit;
}

/// Closes the descriptor of an open whose caller gave up before the answer. Uses the channel of
/// that open, which the caller owns. All lanes of one warp call. Then the channel is ready for the
/// next request, with `sequence`. With an error, -EIO or -ETIMEDOUT, the channel is returned.
struct late_close {
  std::int32_t error;
  std::uint32_t sequence;
};
GPUFS_LIBRARY_STAGE late_close close_late_open(fs_ref const* __restrict__ handle, ring::channel c,
                                               std::int32_t descriptor) {
  fs_ref const& fs = *handle;
  rpc::request r;
  r.op = rpc::operation::close;
  r.file = descriptor;
  r.argument[0] = rpc::tells_nobody;
  r.channel = c.number;
  r.sequence = c.sequence;
  ring::submit(fs, r);
  std::int32_t error = 0;
  if (lane_id() == 0) {
    bool answered = false;
    std::int32_t const result = ring::await(fs, c, answered);
    handle::add(fs, handle::counter::requests);
    if (answered) {
      ring::next_request(fs.channels.control, c);
    } else {
      error = result;
      ring::return_channel(fs.channels.control, c, false);
    }
  }
  return {warp_broadcast(error), warp_broadcast(c.sequence)};
}

/// Whether the daemon must know that the caller has given up. It then destroys no bytes, removes no
/// name, keeps no descriptor open that nobody would close, and leaves errors to be told to somebody
/// else.
__device__ __forceinline__ bool is_for_caller_alone(rpc::request const& r) {
  return r.op == rpc::operation::truncate || r.op == rpc::operation::open ||
         r.op == rpc::operation::sync || r.op == rpc::operation::close ||
         r.op == rpc::operation::unlink;
}

/// The result of a request that found no channel in time, or `error` if that is another one. A
/// close or a sync goes on after -ETIMEDOUT, but of this one the daemon has not heard.
constexpr std::int32_t not_sent(rpc::operation op, std::int32_t error) {
  bool const goes_on = op == rpc::operation::close || op == rpc::operation::sync;
  return goes_on && error == -ETIMEDOUT ? -EAGAIN : error;
}

/// Sends one request over a control channel and waits for the answer. `before` fills the staging
/// piece. `after` reads it and the completion, unless the result is an error. All lanes of one warp
/// call. All get the daemon's result, -EIO, -ETIMEDOUT or not_sent(). A request that announces
/// nothing uses no staging piece either.
template <ring::carries Carries = ring::carries::staged_data, class Before, class After>
__device__ __forceinline__ std::int32_t control_call(fs_ref const& fs, rpc::request r,
                                                     Before&& before, After&& after) {
  unsigned const lane = lane_id();
  ring::channel c;
  std::int32_t late = 0;
  std::int32_t result = ring::acquire_channel(fs, fs.channels.control, c, &late);
  late = warp_broadcast(late);
  // Of the requests over control channels only an open has a result above 0.
  if (result == 0 && late > 0) {
    late_close const closed = close_late_open(fs.self, c, late);
    result = closed.error;
    c.sequence = closed.sequence;
  }
  if (result != 0) {
    if (lane == 0 && result == -ETIMEDOUT) handle::add(fs, handle::counter::timeouts);
    return not_sent(r.op, result);
  }
  r.channel = c.number;
  r.sequence = c.sequence;
  r.staging = ring::staging_offset(fs.channels.control, c);
  std::byte* const staging = ring::staging_bytes(fs, fs.channels.control, c);
  before(staging);
  __syncwarp();
  ring::submit<Carries>(fs, r);
  bool answered = false;
  if (lane == 0) {
    result = ring::await(fs, c, answered);
    if (result == -ETIMEDOUT && !answered && is_for_caller_alone(r))
      result = ring::give_up(fs, c, answered);
    handle::add(fs, handle::counter::requests);
    if (!answered && result == -ETIMEDOUT) handle::add(fs, handle::counter::timeouts);
  }
  result = warp_broadcast(result);
  __syncwarp();  // all lanes come after lane 0's acquire
  if (result >= 0 || result == rpc::other_gate_needed)
    after(staging, fs.link.shared.completions[c.number]);
  __syncwarp();
  if (lane == 0)
    ring::return_channel(fs.channels.control, c, answered,
                         Carries == ring::carries::nothing ? after_settling : memory_order_release);
  return result;
}

/// Sends a request that carries no bytes and returns none. It may announce what the caller has
/// posted. All lanes of one warp call. Returns as control_call().
template <ring::carries Carries = ring::carries::staged_data>
__device__ __forceinline__ std::int32_t plain_call(fs_ref const& fs, rpc::operation op,
                                                   std::int32_t fd, std::uint64_t argument = 0) {
  rpc::request r;
  r.op = op;
  r.file = fd;
  r.argument[0] = argument;
  return control_call<Carries>(
      fs, r, [](std::byte*) {}, [](std::byte const*, rpc::completion&) {});
}

/// Sends a request that carries a path. `after` as in control_call(). All lanes of one warp call.
template <class After>
__device__ __forceinline__ std::int32_t path_call(fs_ref const& fs, rpc::operation op,
                                                  char const* path, std::uint64_t first,
                                                  std::uint64_t second, After&& after) {
  std::uint32_t const length = warp_strlen(path, PATH_MAX);
  if (length >= PATH_MAX) return -ENAMETOOLONG;
  rpc::request r;
  r.op = op;
  r.length = length;
  r.argument[0] = first;
  r.argument[1] = second;
  return control_call(
      fs, r,
      [&](std::byte* staging) {
        for (std::uint32_t i = lane_id(); i < length; i += warp_size)
          staging[i] = static_cast<std::byte>(path[i]);
      },
      after);
}

}  // namespace gpufs::io
