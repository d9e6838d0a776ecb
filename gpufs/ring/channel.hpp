// The device's side of the rings: channels, and waiting for answers.
#pragma once

#include <gpufs/base/reduce.hpp>
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

__device__ __forceinline__ atomic_ref<std::uint64_t, scope::device> channel_word(
    handle::channel_pool_ref const& pool, std::uint32_t index) {
  return atomic_ref<std::uint64_t, scope::device>(pool.states[index].word);
}

/// Whether a channel without an owner, whose word was `seen`, can have its next request: it is
/// free, or answered by now. `late`, if given, gets the result of such a late answer; otherwise it
/// stays unchanged.
__device__ __forceinline__ bool is_usable(fs_ref const& fs, std::uint32_t number,
                                          std::uint64_t seen, std::int32_t* late) {
  if (phase_of_state(seen) == channel_phase::free) return true;
  // Pairs with the daemon's release of the answer: its writes to staging are over.
  std::uint64_t const answer = load_completion(fs, number, memory_order_acquire);
  if (rpc::completion_sequence(answer) != sequence_of_state(seen)) return false;
  if (late != nullptr) *late = rpc::completion_result(answer);
  return true;
}

/// Tries for channel `index` of the pool, whose word was `seen` just before. Any single thread
/// calls. Takes the channel if it is usable. `late`: as in is_usable().
__device__ __forceinline__ bool try_seen_channel(fs_ref const& fs,
                                                 handle::channel_pool_ref const& pool,
                                                 std::uint32_t index, std::uint64_t seen,
                                                 channel& out, std::int32_t* late = nullptr) {
  if (is_owned(seen)) return false;
  std::int32_t result = late != nullptr ? *late : 0;
  if (!is_usable(fs, pool.first + index, seen, &result)) return false;
  std::uint32_t const sequence = next_sequence(sequence_of_state(seen));
  // Pairs with the release in return_channel(): the last holder is done with staging.
  if (!channel_word(pool, index)
           .compare_exchange_strong(seen, state_word(channel_phase::busy, sequence),
                                    memory_order_acquire, memory_order_relaxed))
    return false;
  if (late != nullptr) *late = result;
  out = {pool.first + index, sequence};
  return true;
}

/// The same, with a look of its own at the word.
__device__ __forceinline__ bool try_channel(fs_ref const& fs, handle::channel_pool_ref const& pool,
                                            std::uint32_t index, channel& out,
                                            std::int32_t* late = nullptr) {
  std::uint64_t const seen = channel_word(pool, index).load(memory_order_relaxed);
  return try_seen_channel(fs, pool, index, seen, out, late);
}

/// The same without a look at the word before, which is one trip to memory less.
__device__ __forceinline__ bool claim_channel(fs_ref const& fs,
                                              handle::channel_pool_ref const& pool,
                                              std::uint32_t index, channel& out,
                                              std::int32_t* late = nullptr) {
  auto const word = channel_word(pool, index);
  // Pairs with the release in return_channel(): the last holder is done with staging.
  std::uint64_t const seen =
      word.fetch_or(static_cast<std::uint32_t>(channel_phase::busy), memory_order_acquire);
  if (is_owned(seen)) return false;
  if (!is_usable(fs, pool.first + index, seen, late)) {
    word.store(seen, memory_order_release);
    return false;
  }
  out = {pool.first + index, next_sequence(sequence_of_state(seen))};
  return true;
}

/// The word of the lane's channel among the 32 from number `from` of the pool on, modulo its size.
/// For try_seen_channels(). All lanes of a warp call.
__device__ __forceinline__ std::uint64_t look_at_channels(handle::channel_pool_ref const& pool,
                                                          std::uint32_t from) {
  return channel_word(pool, (from + lane_id()) % pool.count).load(memory_order_relaxed);
}

/// Tries for one of these channels for each lane with `wants`, whose words were `seen` just before.
/// As try_channels().
__device__ __forceinline__ bool try_seen_channels(fs_ref const& fs,
                                                  handle::channel_pool_ref const& pool,
                                                  std::uint32_t from, std::uint64_t seen,
                                                  bool wants, channel& out,
                                                  std::int32_t* late = nullptr) {
  unsigned const seekers = __ballot_sync(all_lanes, wants);
  // Else one that waits for its answer would hide the free ones behind it.
  bool const may_be_had =
      lane_id() < pool.count && !is_owned(seen) &&
      is_usable(fs, pool.first + (from + lane_id()) % pool.count, seen, nullptr);
  unsigned const chances = __ballot_sync(all_lanes, may_be_had);
  int const mine = lane_of_rank(chances, rank_in(seekers));
  std::uint64_t const word = warp_broadcast(seen, mine < 0 ? 0 : mine);
  bool got = false;
  if (wants && mine >= 0)
    got = try_seen_channel(fs, pool, (from + static_cast<unsigned>(mine)) % pool.count, word, out,
                           late);
  __syncwarp();  // all lanes come after the acquires of these lanes
  return got;
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
    if (__ballot_sync(all_lanes, wants && !got) == 0) break;
    std::uint32_t const first = (from + round * warp_size) % pool.count;
    std::uint64_t const seen = look_at_channels(pool, first);
    if (try_seen_channels(fs, pool, first, seen, wants && !got, out, late)) got = true;
  }
  return got;
}

/// Whether a caller that waits for a channel takes completions that controllers owe.
enum class helps { no, yes };

/// Takes a free channel, or waits for one. All lanes of a warp call. Returns 0, -EIO or -ETIMEDOUT.
/// `late`: as in try_channel(), in lane 0.
template <helps Helps = helps::no>
__device__ __forceinline__ int acquire_channel(fs_ref const& fs,
                                               handle::channel_pool_ref const& pool, channel& out,
                                               std::int32_t* late = nullptr) {
  std::uint32_t from = warp_number() * pool.spacing % pool.count, attempt = 0;
  channel mine;
  bool const claimed = lane_id() == 0 && claim_channel(fs, pool, from, mine, late);
  if (__ballot_sync(all_lanes, claimed) != 0) {
    __syncwarp();  // all lanes come after the acquire of lane 0
    out = {warp_broadcast(mine.number), warp_broadcast(mine.sequence)};
    return 0;
  }
  return handle::warp_spin_until(fs, [&] {
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
  c.sequence = next_sequence(c.sequence);
  channel_word(pool, c.number - pool.first)
      .store(state_word(channel_phase::busy, c.sequence), memory_order_relaxed);
}

/// Gives a channel back. It is free if its request is `answered`, and otherwise quarantined. One
/// thread calls, after a barrier with the readers of its staging piece. If their loads and stores
/// are settled, `order` may be after_settling.
__device__ __forceinline__ void return_channel(handle::channel_pool_ref const& pool,
                                               channel const& c, bool answered,
                                               memory_order order = memory_order_release) {
  channel_phase const next = answered ? channel_phase::free : channel_phase::quarantined;
  channel_word(pool, c.number - pool.first).store(state_word(next, c.sequence), order);
}

/// Gives back a channel whose answer is not needed. It is free once the answer is there. One thread
/// calls. The bytes pulled from it are settled (settled.hpp). So no release is needed; it would
/// wait for all pulls of the multiprocessor.
__device__ __forceinline__ void give_up_channel(fs_ref const& fs,
                                                handle::channel_pool_ref const& pool,
                                                channel const& c) {
  // Pairs with the daemon's release of the answer. This may be the only look at the answer, and the
  // next holder overwrites it.
  bool const answered =
      rpc::completion_sequence(load_completion(fs, c.number, memory_order_acquire)) == c.sequence;
  return_channel(pool, c, answered, after_settling);
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

/// Gives up a request that io::is_for_caller_alone(), after await() has timed out. One thread
/// calls. Returns -ETIMEDOUT: the daemon will destroy no bytes, and take no error to be told. If it
/// has begun to, waits for the answer, however long that takes, and returns as await().
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
