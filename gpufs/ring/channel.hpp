// The device's side of the rings: channels, submitting requests, waiting for answers.
#pragma once

#include <gpufs/base/settled.hpp>
#include <gpufs/base/warp.hpp>
#include <gpufs/device.hpp>
#include <gpufs/fs_ref.hpp>
#include <gpufs/handle/deadline.hpp>
#include <gpufs/ring/block_requests.hpp>
#include <gpufs/ring/channel_state.hpp>

#include <cerrno>
#include <cstdint>

namespace gpufs::ring {

using namespace base;

// Why a ticket's slot is always free. A caller holds its channel from before it takes a ticket
// until it has the answer. A ring has N slots, and at most N channels use it. So of the N tickets
// before ticket t, at least one, j, shares its channel with a later ticket <= t. Ticket j was
// answered before its channel was used again, so before t was drawn. The daemon takes tickets in
// order. So it also took ticket t - N <= j, which used the slot of t. No credits are needed, and no
// ticket stays uncommitted.

/// A channel that the caller owns: its number in completions[] and the sequence of its request.
struct channel {
  std::uint32_t number = 0;
  std::uint32_t sequence = 0;
};

__device__ __forceinline__ std::uint64_t staging_offset(handle::channel_pool_ref const& pool,
                                                        channel const& c) {
  return pool.staging + std::uint64_t(c.number - pool.first) * pool.bytes;
}
__device__ __forceinline__ std::byte* staging_bytes(fs_ref const& fs,
                                                    handle::channel_pool_ref const& pool,
                                                    channel const& c) {
  return fs.link.shared.staging + staging_offset(pool, c);
}

__device__ __forceinline__ std::uint64_t load_completion(fs_ref const& fs, std::uint32_t number,
                                                         memory_order order) {
  return atomic_ref<std::uint64_t, scope::system>(fs.link.shared.completions[number].word)
      .load(order);
}

/// Tries for channel `index` of the pool. Any single thread calls. Takes the channel if it is free,
/// or quarantined and answered by now. `late`, if given, gets the result of such a late answer;
/// otherwise it stays unchanged.
__device__ __forceinline__ bool try_channel(fs_ref const& fs, handle::channel_pool_ref const& pool,
                                            std::uint32_t index, channel& out,
                                            std::int32_t* late = nullptr) {
  constexpr auto busy = static_cast<std::uint32_t>(channel_phase::busy);
  constexpr auto quarantined = static_cast<std::uint32_t>(channel_phase::quarantined);
  atomic_ref<std::uint32_t, scope::device> state(pool.states[index].phase);
  atomic_ref<std::uint32_t, scope::device> last(pool.states[index].sequence);
  std::uint32_t seen = state.load(memory_order_relaxed);
  bool const was_quarantined = seen == quarantined;
  // Pairs with the release in return_channel(): the last holder is done with staging and sequence.
  if (seen == busy ||
      !state.compare_exchange_strong(seen, busy, memory_order_acquire, memory_order_relaxed))
    return false;
  std::uint32_t const sequence = last.load(memory_order_relaxed);
  if (was_quarantined) {
    // Pairs with the daemon's release of the answer: its writes to staging are over.
    std::uint64_t const answer = load_completion(fs, pool.first + index, memory_order_acquire);
    if (rpc::completion_sequence(answer) != sequence) {
      state.store(quarantined, memory_order_release);
      return false;
    }
    if (late != nullptr) *late = rpc::completion_result(answer);
  }
  // new completion words hold sequence 0
  out = {pool.first + index, sequence + 1 == 0 ? 1 : sequence + 1};
  last.store(out.sequence, memory_order_relaxed);
  return true;
}

/// Tries for a channel for each lane with `wants`. Looks at 32 * `rounds` channels from number
/// `from` of the pool on, modulo its size. All lanes of a warp call; true in the lanes that got a
/// channel. Afterwards any lane may write to the staging piece of any of them. `late` as in
/// try_channel().
__device__ __forceinline__ bool try_channels(fs_ref const& fs, handle::channel_pool_ref const& pool,
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
  __syncwarp();  // all lanes come after the acquires of these lanes
  return got;
}

/// Whether who waits for a channel takes completions that controllers owe.
enum class helps { no, yes };

/// Takes a free channel, or waits for one. All lanes of a warp call. Returns 0, -EIO or -ETIMEDOUT.
/// `late`: as in try_channel(), in lane 0.
template <helps Helps = helps::no>
__device__ __forceinline__ int acquire_channel(fs_ref const& fs,
                                               handle::channel_pool_ref const& pool, channel& out,
                                               std::int32_t* late = nullptr) {
  std::uint32_t from = warp_number() * pool.spacing % pool.count, attempt = 0;
  return handle::warp_spin_until(fs, [&] {
    channel mine;
    bool const got = try_channels(fs, pool, from, 1, lane_id() == 0, mine, late);
    from = (from + (pool.count < warp_size ? 1 : warp_size)) % pool.count;
    if (__ballot_sync(all_lanes, got) == 0) {
      auto const number = pool.first + (from + lane_id()) % pool.count;
      if constexpr (Helps == helps::yes) help_drives<whole_warp>(fs.self, true, number, attempt++);
      return false;
    }
    out = {warp_broadcast(mine.number), warp_broadcast(mine.sequence)};
    return true;
  });
}

/// Starts one more request on an owned channel whose last request is answered: draws its sequence.
/// One thread calls.
__device__ __forceinline__ void next_request(handle::channel_pool_ref const& pool, channel& c) {
  c.sequence = c.sequence + 1 == 0 ? 1 : c.sequence + 1;
  atomic_ref<std::uint32_t, scope::device>(pool.states[c.number - pool.first].sequence)
      .store(c.sequence, memory_order_relaxed);
}

/// Gives a channel back. It is free if its request is `answered`, and otherwise quarantined. One
/// thread calls, after a barrier with the readers of its staging piece. If their loads and stores
/// are settled, `order` may be after_settling.
__device__ __forceinline__ void return_channel(handle::channel_pool_ref const& pool,
                                               channel const& c, bool answered,
                                               memory_order order = memory_order_release) {
  channel_phase const next = answered ? channel_phase::free : channel_phase::quarantined;
  atomic_ref<std::uint32_t, scope::device>(pool.states[c.number - pool.first].phase)
      .store(static_cast<std::uint32_t>(next), order);
}

/// Gives back a channel whose answer is not needed. It is free once the answer is there. One thread
/// calls. The bytes pulled from it are settled (settled.hpp), and the sequence lies in the same 32
/// bytes as the phase. So no release is needed; it would wait for all pulls of the multiprocessor.
__device__ __forceinline__ void give_up_channel(fs_ref const& fs,
                                                handle::channel_pool_ref const& pool,
                                                channel const& c) {
  // Pairs with the daemon's release of the answer. This may be the only look at the answer, and the
  // next holder overwrites it.
  bool const answered =
      rpc::completion_sequence(load_completion(fs, c.number, memory_order_acquire)) == c.sequence;
  return_channel(pool, c, answered, after_settling);
}

/// What a request announces to the daemon besides itself.
/// staged_data  The caller's earlier stores: bytes in staging, or posts of write buffers.
enum class carries { nothing, staged_data };

// Assumption: a request without staged data needs no order with its caller's earlier accesses on
// the GPU. The daemon will overwrite a staging piece that a former holder pulled from, and a slot
// that held a former ticket. These loads have returned. The holder passed on their values before it
// gave the channel up, and the daemon took the former ticket before it answered it. Later stores
// cannot undo that. So the GPU uses relaxed stores and needs no fence. Other devices use the formal
// order, which costs nothing there. Tests: ring_race_test (the formal order), machine_order.py,
// differential_test on a GPU.
#if defined(__CUDACC__)
inline constexpr memory_order ticket_order = memory_order_relaxed;
inline constexpr memory_order bare_request_order = memory_order_relaxed;
#else
inline constexpr memory_order ticket_order = memory_order_acq_rel;
inline constexpr memory_order bare_request_order = memory_order_release;
#endif

/// Puts a request, the same in all lanes, into its ring. All lanes of a warp call. The caller owns
/// r.channel. Never waits.
template <carries Carries = carries::nothing>
__device__ __forceinline__ void submit(fs_ref const& fs, rpc::request const& r) {
  unsigned const lane = lane_id();
  std::uint32_t const ring =
      rpc::ring_of(r.channel, static_cast<std::uint32_t>(fs.link.shared.rings));
  std::uint64_t ticket = 0;
  if (lane == 0)
    ticket = atomic_ref<std::uint64_t, scope::device>(fs.link.tails[ring * handle::tail_stride])
                 .fetch_add(1, ticket_order);
  ticket = warp_broadcast(ticket);
  __syncwarp();
  rpc::slot& slot =
      fs.link.shared.ring[ring * fs.link.shared.slots + (ticket & (fs.link.shared.slots - 1))];
  if (lane < rpc::words_per_slot) {  // one coalesced store crosses the bus as one packet
    // Pairs with the acquire in daemon::request_queue. A daemon thread that sees the tags also sees
    // the data in staging, if there is any.
    atomic_ref<std::uint64_t, scope::system>(slot.word[lane])
        .store(rpc::pack_word(r, lane, rpc::lap_tag(ticket, fs.link.shared.slots)),
               Carries == carries::staged_data ? memory_order_release : bare_request_order);
  }
  __syncwarp();
}

/// Puts the calling thread's request into its ring. Any single thread calls; it owns r.channel.
/// Never waits.
template <carries Carries = carries::nothing>
__device__ __forceinline__ void submit_alone(fs_ref const& fs, rpc::request const& r) {
  std::uint32_t const ring =
      rpc::ring_of(r.channel, static_cast<std::uint32_t>(fs.link.shared.rings));
  std::uint64_t const ticket =
      atomic_ref<std::uint64_t, scope::device>(fs.link.tails[ring * handle::tail_stride])
          .fetch_add(1, ticket_order);
  rpc::slot& slot =
      fs.link.shared.ring[ring * fs.link.shared.slots + (ticket & (fs.link.shared.slots - 1))];
  for (unsigned i = 0; i < rpc::words_per_slot; ++i) {
    // Pairs with the acquire in daemon::request_queue. bare_request_order has the reason for the
    // order.
    atomic_ref<std::uint64_t, scope::system>(slot.word[i])
        .store(rpc::pack_word(r, i, rpc::lap_tag(ticket, fs.link.shared.slots)),
               Carries == carries::nothing ? bare_request_order : memory_order_release);
  }
}

/// Puts a request of each lane with `sends` into its ring. All lanes of a warp call; each sender
/// owns its r.channel. Never waits.
__device__ __forceinline__ void submit_each(fs_ref const& fs, bool sends, rpc::request const& r) {
  unsigned const lane = lane_id();
  std::uint64_t word[rpc::words_per_slot] = {};
  std::uint64_t at = 0;  // index of the slot
  if (sends) {
    std::uint32_t const ring =
        rpc::ring_of(r.channel, static_cast<std::uint32_t>(fs.link.shared.rings));
    std::uint64_t const ticket =
        atomic_ref<std::uint64_t, scope::device>(fs.link.tails[ring * handle::tail_stride])
            .fetch_add(1, ticket_order);
    at = ring * fs.link.shared.slots + (ticket & (fs.link.shared.slots - 1));
    GPUFS_UNROLL
    for (unsigned i = 0; i < rpc::words_per_slot; ++i)
      word[i] = rpc::pack_word(r, i, rpc::lap_tag(ticket, fs.link.shared.slots));
  }
  __syncwarp();
  // Four slots at a time, eight lanes each. A slot crosses the bus as one packet.
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
      // Pairs with the acquire in daemon::request_queue. bare_request_order has the reason for the
      // order.
      atomic_ref<std::uint64_t, scope::system>(
          fs.link.shared.ring[where].word[lane % rpc::words_per_slot])
          .store(mine, bare_request_order);
    }
    for (unsigned i = 0; i < together; ++i) left &= left - 1;
  }
  __syncwarp();
}

/// Waits for the answer. One thread calls. Returns the daemon's result (>= 0 or -errno), or -EIO or
/// -ETIMEDOUT with `answered` false: then give the channel back as not answered.
__device__ __forceinline__ std::int32_t await(fs_ref const& fs, channel const& c, bool& answered) {
  std::uint64_t word = 0;
  int const error = handle::spin_until(fs, handle::host_pause_ns, [&] {
    // Pairs with the daemon's release. A thread that sees the sequence also sees the bytes in
    // staging.
    word = load_completion(fs, c.number, memory_order_acquire);
    return rpc::completion_sequence(word) == c.sequence;
  });
  answered = error == 0;
  return answered ? rpc::completion_result(word) : error;
}

/// Gives up a request that destroys bytes, after await() has timed out. One thread calls. Returns
/// -ETIMEDOUT: the daemon will not carry it out. If it has begun to, waits for the answer, however
/// long that takes, and returns as await().
__device__ __forceinline__ std::int32_t give_up(fs_ref const& fs, channel const& c,
                                                bool& answered) {
  rpc::completion& words = fs.link.shared.completions[c.number];
  atomic_ref<std::uint64_t, scope::system>(words.given_up).store(c.sequence, memory_order_seq_cst);
  // Pairs with the daemon's look at `given_up` (rpc::completion).
  if (atomic_ref<std::uint64_t, scope::system>(words.begun).load(memory_order_seq_cst) !=
      c.sequence)
    return -ETIMEDOUT;
  std::int32_t result = -ETIMEDOUT;
  while (!answered && result == -ETIMEDOUT) result = await(fs, c, answered);
  return result;
}

}  // namespace gpufs::ring
