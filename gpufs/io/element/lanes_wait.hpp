// Waits of lanes that come together: for a frame in the frame line, for a write buffer.
#pragma once

#include <gpufs/cache/line.hpp>
#include <gpufs/device.hpp>
#include <gpufs/dirty/write_buffer.hpp>
#include <gpufs/fs_ref.hpp>

#include <cerrno>
#include <cstdint>

namespace gpufs::io {

using namespace base;

/// What lanes that come together have while they wait. All members are the same in all lanes.
struct lanes_wait {
  std::uint32_t turn = cache::no_turn;  ///< in the frame line
  std::uint64_t since = 0;              ///< when they last got on, or joined the line
  std::int64_t spare = -1;              ///< a write buffer that they have taken, or -1
  bool kept_out = false;                ///< the gate of the file's writers was closed just now
  bool held_up = false;                 ///< the host, or one who may wait for it, has the page
};

/// Joins the frame line and waits until the lanes are in front; if `alone`, until they are the
/// first. All lanes of the group call, and hold no page.
__device__ __forceinline__ void lanes_join(converged_group const& g, fs_ref const& fs, bool alone,
                                           lanes_wait& w) {
  cache::line& line = *fs.cache.line;
  std::uint32_t turn = 0;
  if (g.thread_rank() == 0) {
    turn = cache::join_line(line);
    // Ends as join_line() does.
    for (unsigned pause = 0; alone && !cache::is_first(line, turn);)
      backoff(pause, handle::device_pause_ns);
  }
  w.turn = g.shfl(turn, 0);
  w.since = device_clock_ns();
}

/// Leaves the frame line if the lanes are in it. All lanes of the group call.
__device__ __forceinline__ void lanes_leave(converged_group const& g, fs_ref const& fs, bool served,
                                            lanes_wait& w) {
  if (w.turn != cache::no_turn && g.thread_rank() == 0)
    cache::leave_line(*fs.cache.line, w.turn, served);
  w.turn = cache::no_turn;
}

/// Why lanes that have not got on must stop trying: 0, -EIO if the daemon has stopped, -ENOMEM at
/// the deadline, or -ETIMEDOUT if they wait for one who may wait for the host. All lanes of the
/// group call.
__device__ __forceinline__ std::int32_t lanes_late(converged_group const& g, fs_ref const& fs,
                                                   lanes_wait const& w) {
  std::int32_t late = 0;
  if (g.thread_rank() == 0)
    late = w.turn == cache::no_turn
               ? handle::wait_error(fs, w.since, w.kept_out || w.held_up ? -ETIMEDOUT : -ENOMEM)
               : cache::line_error(fs, *fs.cache.line, w.since, -ENOMEM);
  return g.shfl(late, 0);
}

/// Takes a write buffer for the lanes, in turn, if they have none. All lanes of the group call, and
/// hold no page and no place in the frame line. Returns 0, -EIO or -ENOMEM.
__device__ __forceinline__ std::int32_t lanes_take_buffer(converged_group const& g,
                                                          fs_ref const& fs, lanes_wait& w) {
  if (w.spare >= 0) return 0;
  std::int64_t got = 0;
  if (g.thread_rank() == 0) got = dirty::buffer_in_turn<one_lane>(fs);
  got = static_cast<std::int64_t>(g.shfl(static_cast<std::uint64_t>(got), 0));
  g.sync();  // all lanes come after the acquire of the lane that took it
  if (got < 0) return static_cast<std::int32_t>(got);
  w.spare = got;
  return 0;
}

/// Gives back the lanes' write buffer, if they have one. All lanes of the group call.
__device__ __forceinline__ void lanes_return_buffer(converged_group const& g, fs_ref const& fs,
                                                    lanes_wait& w) {
  if (w.spare >= 0 && g.thread_rank() == 0)
    dirty::give_back_buffer(fs, static_cast<std::uint32_t>(w.spare));
  w.spare = -1;
}

/// The outcome of a round of visit_pages(). All members are the same in all lanes.
struct lanes_round {
  bool got_on;  ///< a lane is done
  bool stuck;   ///< a visitor could not use a page that is there
  bool lacks;   ///< a page found no frame or channel
};

/// Waits for the next round. All lanes of the group call, and hold no page; only lanes that are
/// `alone`, the first in the frame line, may hold some. Returns 0, or the reason to stop.
__device__ __forceinline__ std::int32_t lanes_await_round(converged_group const& g,
                                                          fs_ref const& fs,
                                                          lanes_round const& round, bool alone,
                                                          unsigned attempt, lanes_wait& w) {
  if (w.since == 0 || round.got_on) w.since = device_clock_ns();
  w.held_up = w.held_up && round.stuck;
  if (w.turn == cache::no_turn && round.lacks &&
      g.any(g.thread_rank() == 0 && cache::must_join(*fs.cache.line, w.since))) {
    lanes_join(g, fs, alone, w);
    return 0;
  }
  if (round.stuck && !round.got_on) {
    // With a spare buffer the visitor has waited for a whole rpc_timeout (open_with_spare()).
    std::int32_t const error = w.spare >= 0 ? lanes_late(g, fs, w) : lanes_take_buffer(g, fs, w);
    if (error != 0) return error;
  }
  if (w.turn != cache::no_turn || attempt % 16 == 15) return lanes_late(g, fs, w);
  return 0;
}

}  // namespace gpufs::io
