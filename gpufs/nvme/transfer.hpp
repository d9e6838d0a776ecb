// Commands that callers wait for.
#pragma once

#include <gpufs/nvme/queue_pair.hpp>

#include <cerrno>
#include <cstdint>

namespace gpufs::nvme {

/// Why a wait that began at `start` must end: -EIO if the controller has failed, -ETIMEDOUT past
/// the deadline, or 0. All lanes of the team call and get the same.
template <class Team>
__device__ std::int32_t end_of_wait(queue_group_ref const& g, std::uint64_t start) {
  std::int32_t error = 0;
  if (Team::lane() == 0) {
    // Set by the host. It announces no other data.
    bool const failed = state_of(g.control->state).load(memory_order_relaxed) != 0;
    bool const late = static_cast<std::int64_t>(device_clock_ns() - start) >
                      static_cast<std::int64_t>(g.timeout_ns);
    error = failed ? -EIO : late ? -ETIMEDOUT : 0;
  }
  return Team::broadcast(error);
}

/// Waits for the command of each lane with `waits`, and helps meanwhile. All lanes of the team
/// call. Returns the result: 0, -EAGAIN (send it again), or -errno. `answered` is false if the wait
/// ended without the completion, with -EIO or -ETIMEDOUT: give the channel back so.
template <class Team>
__device__ std::int32_t await(queue_group_ref const& g, bool waits, channel const& c,
                              bool& answered) {
  constexpr unsigned rounds_per_look = 16;  // at the clock and the state, which is across the bus
  std::uint64_t const start = device_clock_ns();
  unsigned pause = 0;
  std::int32_t result = 0;
  std::int32_t error = 0;
  answered = false;
  GPUFS_ROLLED
  for (unsigned round = 1;; ++round) {
    if (waits && !answered) {
      std::uint64_t const word = load_completion(g.pairs[c.pair], c.number);
      answered = rpc::completion_sequence(word) == c.sequence;
      result = answered ? rpc::completion_result(word) : error;
    }
    bool const open = waits && !answered;
    if (error != 0 || Team::ballot(open) == 0) break;
    if (round % 2 == 0)
      for_each_pair<Team>(open, c.pair, [&](std::uint32_t pair, unsigned) { help<Team>(g, pair); });
    if (round % rounds_per_look == 0) error = end_of_wait<Team>(g, start);
    if (error == 0) backoff(pause, longest_pause_ns);
  }
  Team::sync();  // the team may use the bytes of its lanes
  return result;
}

/// A lane's transfer.
struct transfer_request {
  direction to = direction::read;
  block_range range;
  prp_pair memory;
};

/// Carries out the transfer of each lane with `wants`, sends again what is worth it, and waits. All
/// lanes of the team call. Returns each lane's 0 or -errno:
///   -EIO controller failed, media error | -ETIMEDOUT no answer in time | others as error_of()
///
/// After -ETIMEDOUT, and after queue_group::fail(), the command may still be under way. Its memory
/// may change until the controller has been stopped, also under a later command of another pair.
template <class Team>
__device__ std::int32_t transfer(queue_group_ref const& g, bool wants,
                                 transfer_request const& request) {
  std::uint64_t start = device_clock_ns();
  std::uint32_t chunk = warp_number();
  unsigned pause = 0;
  unsigned tries = 0;
  std::int32_t result = 0;
  bool pending = wants;
  GPUFS_ROLLED
  while (Team::ballot(pending) != 0) {
    channel c;
    bool const got = try_channels<Team>(g, chunk, pending, request.to, c);
    if (Team::ballot(got) == 0) {
      // Completions of commands that were given up free channels, too.
      help<Team>(g, chunk % chunks_of(g) % g.count);
      ++chunk;
      std::int32_t const error = end_of_wait<Team>(g, start);
      if (error != 0) return pending ? error : result;
      backoff(pause, longest_pause_ns);
      continue;
    }
    opcode const code = request.to == direction::read ? opcode::read : opcode::write;
    submit<Team>(g, got, c, make_transfer(code, 0, g.nsid, request.range, request.memory));
    bool answered = false;
    std::int32_t const came = await<Team>(g, got, c, answered);
    if (got) {
      return_channel(g, c, answered);
      bool const again = came == -EAGAIN && tries < most_retries;
      tries += again ? 1 : 0;
      pending = again;
      result = came == -EAGAIN ? -EIO : came;
    }
    // Lanes that found no channel wait anew, if commands are answered.
    if (Team::ballot(got && !answered) == 0) start = device_clock_ns();
    pause = 0;
    ++chunk;
  }
  return result;
}

}  // namespace gpufs::nvme
