// The device's side of the ring: channels, submitting a request, waiting for its completion.
#pragma once

#include <gpufs/device.hpp>
#include <gpufs/fs_ref.hpp>
#include <gpufs/rpc/channel_state.hpp>
#include <gpufs/wait.hpp>
#include <gpufs/warp.hpp>

#include <cerrno>
#include <cstdint>

namespace gpufs {

// Since a request holds its channel from before its ticket until it is answered, and the ring has at least as many slots as there are
// channels, a ticket's slot has always been consumed a lap ago: no credit is needed, and no ticket is left uncommitted. In detail: of
// the N >= channels tickets before t, at least one, j, shares its channel with a later ticket <= t; j was answered, so consumed; tickets
// are consumed in order, so t - N <= j was consumed; and the answer of j happened before its channel was reused, which happened before
// ticket t was drawn (acquire-release on the tail), so the consumer's loads are over before our stores.

/// A channel that is held: its number (in completions[]), the sequence of its request, its piece of staging.
struct channel {
  std::uint32_t number = 0;
  std::uint32_t sequence = 0;
};

__device__ __forceinline__ std::uint64_t staging_offset(channel_pool_ref const& pool, channel const& c) {
  return pool.staging + std::uint64_t(c.number - pool.first) * pool.bytes;
}
__device__ __forceinline__ std::byte* staging_bytes(fs_ref const& fs, channel_pool_ref const& pool, channel const& c) {
  return fs.shared.staging + staging_offset(pool, c);
}

__device__ __forceinline__ std::uint64_t load_completion(fs_ref const& fs, std::uint32_t number, memory_order order) {
  return atomic_ref<std::uint64_t, scope::system>(fs.shared.completions[number].word).load(order);
}

/// Tries for one of the 32 channels from number `from` of the pool on (modulo its size): the first that is free, or quarantined and
/// answered by now. All lanes of a warp call.
__device__ __forceinline__ bool try_channels(fs_ref const& fs, channel_pool_ref const& pool, std::uint32_t from, channel& out) {
  unsigned const lane = lane_id();
  std::uint32_t const index = (from + lane) % pool.count;
  channel_state& s = pool.states[index];
  atomic_ref<std::uint32_t, scope::device> state(s.phase);
  atomic_ref<std::uint32_t, scope::device> last(s.sequence);
  std::uint32_t seen = static_cast<std::uint32_t>(channel_phase::busy);
  if (lane < pool.count) seen = state.load(memory_order_relaxed);
  // Pairs with the daemon's release store of the answer: its writes to staging are over.
  if (seen == static_cast<std::uint32_t>(channel_phase::quarantined) &&
      rpc::completion_sequence(load_completion(fs, pool.first + index, memory_order_acquire)) != last.load(memory_order_relaxed)) {
    seen = static_cast<std::uint32_t>(channel_phase::busy);
  }
  unsigned candidates = __ballot_sync(all_lanes, seen != static_cast<std::uint32_t>(channel_phase::busy));
  for (; candidates != 0; candidates &= candidates - 1) {
    int const chosen = __ffs(static_cast<int>(candidates)) - 1;
    std::uint32_t sequence = 0;
    // Acquire pairs with release_channel() and abandon_channel(): the last holder is done with staging and sequence.
    if (lane == static_cast<unsigned>(chosen) && state.compare_exchange_strong(seen, static_cast<std::uint32_t>(channel_phase::busy),
                                                                               memory_order_acquire, memory_order_relaxed)) {
      sequence = last.load(memory_order_relaxed) + 1;
      if (sequence == 0) sequence = 1;  // 0 is what fresh completion words hold
      last.store(sequence, memory_order_relaxed);
    }
    sequence = warp_broadcast(sequence, chosen);
    if (sequence != 0) {
      out = {pool.first + warp_broadcast(index, chosen), sequence};
      return true;
    }
  }
  return false;
}

/// Takes a free channel, waiting for one if need be (holders wait only for the daemon). All lanes of a warp call. Returns 0, -EIO,
/// -ETIMEDOUT.
__device__ __forceinline__ int acquire_channel(fs_ref const& fs, channel_pool_ref const& pool, channel& out) {
  std::uint32_t from = warp_number() % pool.count;
  return warp_spin_until(fs, [&] {
    if (try_channels(fs, pool, from, out)) return true;
    from = (from + warp_size) % pool.count;
    return false;
  });
}

/// Draws the sequence of one more request on a channel that is held and whose last request is answered. One thread calls.
__device__ __forceinline__ void next_request(channel_pool_ref const& pool, channel& c) {
  c.sequence = c.sequence + 1 == 0 ? 1 : c.sequence + 1;
  atomic_ref<std::uint32_t, scope::device>(pool.states[c.number - pool.first].sequence).store(c.sequence, memory_order_relaxed);
}

__device__ __forceinline__ void set_channel(channel_pool_ref const& pool, channel const& c, channel_phase p) {
  atomic_ref<std::uint32_t, scope::device>(pool.states[c.number - pool.first].phase)
      .store(static_cast<std::uint32_t>(p), memory_order_release);
}
/// Gives a channel back whose request is answered. One thread calls, after a barrier with those that read its staging.
__device__ __forceinline__ void release_channel(channel_pool_ref const& pool, channel const& c) { set_channel(pool, c, channel_phase::free); }
/// Leaves a channel to the daemon whose request is not answered.
__device__ __forceinline__ void abandon_channel(channel_pool_ref const& pool, channel const& c) {
  set_channel(pool, c, channel_phase::quarantined);
}

/// Puts a request, the same in all lanes, into the ring. All lanes of a warp call; the caller holds r.channel. Never waits.
__device__ __forceinline__ void submit(fs_ref const& fs, rpc::request const& r) {
  unsigned const lane = lane_id();
  std::uint64_t ticket = 0;
  // Acquire-release: orders this ticket after the answers of the tickets before it, see above.
  if (lane == 0) ticket = atomic_ref<std::uint64_t, scope::device>(*fs.tail).fetch_add(1, memory_order_acq_rel);
  ticket = warp_broadcast(ticket);
  rpc::slot& slot = fs.shared.ring[ticket & (fs.shared.slots - 1)];
  if (lane < rpc::payload_words) {  // one coalesced store crosses the bus as one packet
    atomic_ref<std::uint64_t, scope::system>(slot.word[lane]).store(rpc::pack_word(r, lane), memory_order_relaxed);
  }
  __syncwarp();
  if (lane == 0) {
    // Pairs with the acquire in daemon::request_queue: who sees this lap's number sees the payload.
    atomic_ref<std::uint64_t, scope::system>(slot.word[rpc::payload_words])
        .store(rpc::lap_of(ticket, fs.shared.slots), memory_order_release);
  }
  __syncwarp();
}

/// Waits for the answer. One thread calls. Returns the daemon's result (>= 0 or -errno), or -EIO / -ETIMEDOUT with `answered` false:
/// then the channel must be abandoned, not released.
__device__ __forceinline__ std::int32_t await(fs_ref const& fs, channel const& c, bool& answered) {
  std::uint64_t word = 0;
  int const error = spin_until(fs, host_pause_ns, [&] {
    // Pairs with the daemon's release store: who sees the sequence sees the bytes in staging.
    word = load_completion(fs, c.number, memory_order_acquire);
    return rpc::completion_sequence(word) == c.sequence;
  });
  answered = error == 0;
  return answered ? rpc::completion_result(word) : error;
}

}  // namespace gpufs
