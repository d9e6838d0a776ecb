// The device's side of the ring: channels, submitting a request, waiting for its completion.
#pragma once

#include <gpufs/cache/settled.hpp>
#include <gpufs/device.hpp>
#include <gpufs/fs_ref.hpp>
#include <gpufs/rpc/channel_state.hpp>
#include <gpufs/wait.hpp>
#include <gpufs/warp.hpp>

#include <cerrno>
#include <cstdint>

namespace gpufs {

// Since a request holds its channel from before its ticket until it is answered, and a ring has at
// least as many slots as channels that go through it, a ticket's slot has always been consumed a
// lap ago: no credit is needed, and no ticket is left uncommitted. In detail: of the N >= channels
// tickets before t, at least one, j, shares its channel with a later ticket <= t; j was answered,
// so consumed; tickets are consumed in order, so t - N <= j was consumed; and the answer of j came
// before its channel was reused, so before ticket t was drawn.

/// A channel that is held: its number (in completions[]), the sequence of its request, its piece of
/// staging.
struct channel {
  std::uint32_t number = 0;
  std::uint32_t sequence = 0;
};

__device__ __forceinline__ std::uint64_t staging_offset(channel_pool_ref const& pool,
                                                        channel const& c) {
  return pool.staging + std::uint64_t(c.number - pool.first) * pool.bytes;
}
__device__ __forceinline__ std::byte* staging_bytes(fs_ref const& fs, channel_pool_ref const& pool,
                                                    channel const& c) {
  return fs.shared.staging + staging_offset(pool, c);
}

__device__ __forceinline__ std::uint64_t load_completion(fs_ref const& fs, std::uint32_t number,
                                                         memory_order order) {
  return atomic_ref<std::uint64_t, scope::system>(fs.shared.completions[number].word).load(order);
}

/// Tries for channel `index` of the pool: taken if it is free, or quarantined and answered by now.
/// Any single thread calls. `late`, if given, gets the result of an answer that nobody has taken,
/// else stays.
__device__ __forceinline__ bool try_channel(fs_ref const& fs, channel_pool_ref const& pool,
                                            std::uint32_t index, channel& out,
                                            std::int32_t* late = nullptr) {
  constexpr auto busy = static_cast<std::uint32_t>(channel_phase::busy);
  constexpr auto quarantined = static_cast<std::uint32_t>(channel_phase::quarantined);
  atomic_ref<std::uint32_t, scope::device> state(pool.states[index].phase);
  atomic_ref<std::uint32_t, scope::device> last(pool.states[index].sequence);
  std::uint32_t seen = state.load(memory_order_relaxed);
  bool const was_quarantined = seen == quarantined;
  // Acquire pairs with return_channel(): the last holder is done with staging and sequence.
  if (seen == busy ||
      !state.compare_exchange_strong(seen, busy, memory_order_acquire, memory_order_relaxed))
    return false;
  std::uint32_t const sequence = last.load(memory_order_relaxed);
  if (was_quarantined) {
    // Acquire pairs with the daemon's release store of the answer: its writes to staging are over.
    std::uint64_t const answer = load_completion(fs, pool.first + index, memory_order_acquire);
    if (rpc::completion_sequence(answer) != sequence) {
      state.store(quarantined, memory_order_release);
      return false;
    }
    if (late != nullptr) *late = rpc::completion_result(answer);
  }
  out = {pool.first + index,
         sequence + 1 == 0 ? 1 : sequence + 1};  // 0 is what fresh completion words hold
  last.store(out.sequence, memory_order_relaxed);
  return true;
}

/// Tries for a channel for each lane that wants one, among the 32 * `rounds` channels from number
/// `from` of the pool on (modulo its size). All lanes of a warp call; true in those that got one.
/// To what one lane got any of them may write. `late` as above.
__device__ __forceinline__ bool try_channels(fs_ref const& fs, channel_pool_ref const& pool,
                                             std::uint32_t from, unsigned rounds, bool wants,
                                             channel& out, std::int32_t* late = nullptr) {
  bool got = false;
  GPUFS_ROLLED
  for (unsigned round = 0; round < rounds; ++round) {
    unsigned const seekers = __ballot_sync(all_lanes, wants && !got);
    if (seekers == 0) break;
    std::uint32_t const first = (from + round * warp_size) % pool.count;
    std::uint32_t const looked_at = (first + lane_id()) % pool.count;
    bool const may_be_had =
        lane_id() < pool.count &&
        atomic_ref<std::uint32_t, scope::device>(pool.states[looked_at].phase)
                .load(memory_order_relaxed) != static_cast<std::uint32_t>(channel_phase::busy);
    unsigned const chances = __ballot_sync(all_lanes, may_be_had);
    int const mine = lane_of_rank(chances, rank_in(seekers));
    if (wants && !got && mine >= 0)
      got = try_channel(fs, pool, (first + static_cast<unsigned>(mine)) % pool.count, out, late);
  }
  __syncwarp();  // all lanes come after the acquires of those that got one
  return got;
}

/// Takes a free channel, waiting for one if need be (holders wait only for the daemon). All lanes
/// of a warp call. Returns 0, -EIO, -ETIMEDOUT. `late` as above, in lane 0.
__device__ __forceinline__ int acquire_channel(fs_ref const& fs, channel_pool_ref const& pool,
                                               channel& out, std::int32_t* late = nullptr) {
  std::uint32_t from = warp_number() * pool.spacing % pool.count;
  return warp_spin_until(fs, [&] {
    channel mine;
    bool const got = try_channels(fs, pool, from, 1, lane_id() == 0, mine, late);
    from = (from + (pool.count < warp_size ? 1 : warp_size)) % pool.count;
    if (__ballot_sync(all_lanes, got) == 0) return false;
    out = {warp_broadcast(mine.number), warp_broadcast(mine.sequence)};
    return true;
  });
}

/// Draws the sequence of one more request on a channel that is held and whose last request is
/// answered. One thread calls.
__device__ __forceinline__ void next_request(channel_pool_ref const& pool, channel& c) {
  c.sequence = c.sequence + 1 == 0 ? 1 : c.sequence + 1;
  atomic_ref<std::uint32_t, scope::device>(pool.states[c.number - pool.first].sequence)
      .store(c.sequence, memory_order_relaxed);
}

/// Gives a channel back: free if its request is `answered`, else left to the daemon until it is.
/// One thread calls, after a barrier with those that read its staging. `order`: after_settling will
/// do where what was read has been settled.
__device__ __forceinline__ void return_channel(channel_pool_ref const& pool, channel const& c,
                                               bool answered,
                                               memory_order order = memory_order_release) {
  channel_phase const next = answered ? channel_phase::free : channel_phase::quarantined;
  atomic_ref<std::uint32_t, scope::device>(pool.states[c.number - pool.first].phase)
      .store(static_cast<std::uint32_t>(next), order);
}

/// Gives back a channel whose answer nobody wants, or wants any more: it is free once that is
/// there. One thread calls. What was pulled by it has been settled since (settled.hpp), and the
/// sequence lies in the same 32 bytes as the phase: so a release, which would wait for all that the
/// multiprocessor is pulling, is not needed.
__device__ __forceinline__ void give_up_channel(fs_ref const& fs, channel_pool_ref const& pool,
                                                channel const& c) {
  // Acquire pairs with the daemon's release of the answer, which nobody may have looked at: whoever
  // has the channel next writes behind it.
  bool const answered =
      rpc::completion_sequence(load_completion(fs, c.number, memory_order_acquire)) == c.sequence;
  return_channel(pool, c, answered, after_settling);
}

/// What the daemon must see of a request's channel besides the request itself.
enum class carries { nothing, staged_data };

// A request that carries nothing needs no ordering with what its caller did before. The daemon will
// overwrite staging that a former holder of the channel has pulled from, and the slot that a former
// ticket was read from; but those loads have returned: the holder passed on what it loaded before
// it gave the channel up, the daemon took the former ticket before it answered it, and neither
// happens again because of stores issued now. So on the GPU there is no fence here; elsewhere the
// formal order costs nothing.
#if defined(__CUDACC__)
inline constexpr memory_order ticket_order = memory_order_relaxed;
inline constexpr memory_order bare_request_order = memory_order_relaxed;
#else
inline constexpr memory_order ticket_order = memory_order_acq_rel;
inline constexpr memory_order bare_request_order = memory_order_release;
#endif

/// Puts a request, the same in all lanes, into its ring. All lanes of a warp call; the caller holds
/// r.channel. Never waits.
template <carries Carries = carries::nothing>
__device__ __forceinline__ void submit(fs_ref const& fs, rpc::request const& r) {
  unsigned const lane = lane_id();
  std::uint32_t const ring = rpc::ring_of(r.channel, static_cast<std::uint32_t>(fs.shared.rings));
  std::uint64_t ticket = 0;
  if (lane == 0)
    ticket = atomic_ref<std::uint64_t, scope::device>(fs.tails[ring * tail_stride])
                 .fetch_add(1, ticket_order);
  ticket = warp_broadcast(ticket);
  __syncwarp();
  rpc::slot& slot = fs.shared.ring[ring * fs.shared.slots + (ticket & (fs.shared.slots - 1))];
  if (lane < rpc::words_per_slot) {  // one coalesced store crosses the bus as one packet
    // Pairs with the acquire in daemon::request_queue: who sees the tags sees the data in staging,
    // if there is any.
    atomic_ref<std::uint64_t, scope::system>(slot.word[lane])
        .store(rpc::pack_word(r, lane, rpc::lap_tag(ticket, fs.shared.slots)),
               Carries == carries::staged_data ? memory_order_release : bare_request_order);
  }
  __syncwarp();
}

/// Puts a request into its ring that the calling thread makes by itself. Any single thread calls;
/// it holds r.channel. Never waits.
__device__ __forceinline__ void submit_alone(fs_ref const& fs, rpc::request const& r) {
  std::uint32_t const ring = rpc::ring_of(r.channel, static_cast<std::uint32_t>(fs.shared.rings));
  std::uint64_t const ticket =
      atomic_ref<std::uint64_t, scope::device>(fs.tails[ring * tail_stride])
          .fetch_add(1, ticket_order);
  rpc::slot& slot = fs.shared.ring[ring * fs.shared.slots + (ticket & (fs.shared.slots - 1))];
  for (unsigned i = 0; i < rpc::words_per_slot; ++i) {
    // Pairs with the acquire in daemon::request_queue. For the order, see bare_request_order.
    atomic_ref<std::uint64_t, scope::system>(slot.word[i])
        .store(rpc::pack_word(r, i, rpc::lap_tag(ticket, fs.shared.slots)), bare_request_order);
  }
}

/// Puts a request of each lane that `sends` into its ring. All lanes of a warp call; each holds its
/// r.channel. Never waits.
__device__ __forceinline__ void submit_each(fs_ref const& fs, bool sends, rpc::request const& r) {
  unsigned const lane = lane_id();
  std::uint64_t word[rpc::words_per_slot] = {};
  std::uint64_t at = 0;  // index of the slot
  if (sends) {
    std::uint32_t const ring = rpc::ring_of(r.channel, static_cast<std::uint32_t>(fs.shared.rings));
    std::uint64_t const ticket =
        atomic_ref<std::uint64_t, scope::device>(fs.tails[ring * tail_stride])
            .fetch_add(1, ticket_order);
    at = ring * fs.shared.slots + (ticket & (fs.shared.slots - 1));
    GPUFS_UNROLL
    for (unsigned i = 0; i < rpc::words_per_slot; ++i)
      word[i] = rpc::pack_word(r, i, rpc::lap_tag(ticket, fs.shared.slots));
  }
  __syncwarp();
  // Four slots at a time, eight lanes each: a slot crosses the bus as one packet.
  constexpr unsigned together = warp_size / rpc::words_per_slot;
  GPUFS_ROLLED
  for (unsigned left = __ballot_sync(all_lanes, sends); left != 0;) {
    int const sender = lane_of_rank(left, lane / rpc::words_per_slot);
    int const from = sender < 0 ? 0 : sender;
    std::uint64_t mine = 0;
    GPUFS_UNROLL
    for (unsigned i = 0; i < rpc::words_per_slot; ++i) {
      std::uint64_t const theirs = warp_broadcast(word[i], from);
      if (lane % rpc::words_per_slot == i) mine = theirs;
    }
    std::uint64_t const where = warp_broadcast(at, from);
    if (sender >= 0) {
      // Pairs with the acquire in daemon::request_queue. For the order, see bare_request_order.
      atomic_ref<std::uint64_t, scope::system>(
          fs.shared.ring[where].word[lane % rpc::words_per_slot])
          .store(mine, bare_request_order);
    }
    for (unsigned i = 0; i < together; ++i) left &= left - 1;
  }
  __syncwarp();
}

/// Waits for the answer. One thread calls. Returns the daemon's result (>= 0 or -errno), or -EIO /
/// -ETIMEDOUT with `answered` false: then the channel is returned as not answered.
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
