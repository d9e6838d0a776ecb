// Channels of a queue pair. A channel carries one command at a time.
#pragma once

#include <gpufs/base/settled.hpp>
#include <gpufs/base/warp.hpp>
#include <gpufs/device.hpp>
#include <gpufs/nvme/format.hpp>
#include <gpufs/nvme/queue_group_ref.hpp>
#include <gpufs/nvme/status.hpp>
#include <gpufs/rpc/wire_format.hpp>

#include <cstdint>

namespace gpufs::nvme {

using namespace base;

//            try_channel           return_channel
//   free ----------------> busy ----------------> free
//                            | not answered (timed out, failed)
//                            v
//                       quarantined --- try_channel, once the completion is there ---> busy
//
// The word of a channel: sequence << 32 | writes << 8 | phase. The sequence counts commands; 0 is
// none. A command's CID is its channel, and above it the low bits of the sequence. So a completion
// that comes twice, or late, names no command of now.

enum class channel_phase : std::uint8_t { free, busy, quarantined };

/// A channel that the caller owns, with the sequence of its command.
struct channel {
  std::uint32_t pair = 0;    ///< index in the group
  std::uint32_t number = 0;  ///< within the pair
  std::uint32_t sequence = 0;
};

constexpr std::uint64_t channel_word(std::uint32_t sequence, direction d, channel_phase phase) {
  return std::uint64_t{sequence} << 32 | (d == direction::write ? 1u << 8 : 0u) |
         static_cast<std::uint32_t>(phase);
}
__device__ __forceinline__ channel_phase phase_of_channel(std::uint64_t word) {
  return static_cast<channel_phase>(word & 0xff);
}
__device__ __forceinline__ direction direction_of_channel(std::uint64_t word) {
  return (word >> 8 & 1) != 0 ? direction::write : direction::read;
}

/// The CID of a command. It is never ffffh: no channel has all low bits set.
__device__ __forceinline__ std::uint16_t command_id(std::uint32_t number, std::uint32_t sequence,
                                                    std::uint32_t log2) {
  return static_cast<std::uint16_t>(number | sequence << log2);
}

__device__ __forceinline__ std::uint64_t load_completion(queue_pair_ref const& q,
                                                         std::uint32_t number) {
  // Pairs with the drainer's release: the bytes of the command are in place.
  return atomic_ref<std::uint64_t, scope::device>(q.completions[number]).load(memory_order_acquire);
}

/// The calling warp's place of a controller's state, which lies across the bus.
__device__ __forceinline__ atomic_ref<std::uint64_t, scope::system> state_of(state_place* places) {
  return atomic_ref<std::uint64_t, scope::system>(places[warp_number() % state_places].failed);
}

/// Whether a channel with this word can be taken: it is free, or quarantined and answered by now.
__device__ __forceinline__ bool is_available(queue_pair_ref const& q, std::uint32_t number,
                                             std::uint64_t word) {
  channel_phase const phase = phase_of_channel(word);
  if (phase != channel_phase::quarantined) return phase == channel_phase::free;
  return rpc::completion_sequence(load_completion(q, number)) == word >> 32;
}

/// Tries for channel `number` of a pair. Any single thread calls.
__device__ __forceinline__ bool try_channel(queue_group_ref const& g, std::uint32_t pair,
                                            std::uint32_t number, direction d, channel& out) {
  queue_pair_ref const& q = g.pairs[pair];
  atomic_ref<std::uint64_t, scope::device> const word(q.channels[number]);
  std::uint64_t seen = word.load(memory_order_relaxed);
  if (!is_available(q, number, seen)) return false;
  auto const sequence = static_cast<std::uint32_t>(seen >> 32);
  out = {pair, number, sequence + 1 == 0 ? 1 : sequence + 1};
  // Pairs with the release in return_channel(): its last holder is done with it.
  return word.compare_exchange_strong(seen, channel_word(out.sequence, d, channel_phase::busy),
                                      memory_order_acquire, memory_order_relaxed);
}

/// Channels have numbers of their own in a group, in chunks of 32: a warp finds channels of one
/// pair. Numbers beyond the channels of a pair are none.
__device__ __forceinline__ std::uint32_t chunks_of(queue_group_ref const& g) {
  return g.count * ((g.pairs[0].channel_count + warp_size - 1) / warp_size);
}

/// Tries for a channel for each lane with `wants`, in chunk `chunk` modulo their number. All lanes
/// of the team call. True in the lanes that got one.
template <class Team>
__device__ bool try_channels(queue_group_ref const& g, std::uint32_t chunk, bool wants, direction d,
                             channel& out) {
  chunk %= chunks_of(g);
  std::uint32_t const pair = chunk % g.count;
  std::uint32_t const first = chunk / g.count * warp_size;
  bool got = false;
  if constexpr (Team::size == 1) {
    for (std::uint32_t i = 0; wants && !got && i < warp_size; ++i)
      if (first + i < g.pairs[pair].channel_count) got = try_channel(g, pair, first + i, d, out);
  } else {
    std::uint32_t const number = first + Team::lane();
    queue_pair_ref const& q = g.pairs[pair];
    bool const may_be_had =
        number < q.channel_count &&
        is_available(q, number,
                     atomic_ref<std::uint64_t, scope::device>(q.channels[number])
                         .load(memory_order_relaxed));
    unsigned const chances = Team::ballot(may_be_had);
    int const mine = lane_of_rank(chances, rank_in(Team::ballot(wants)));
    got = wants && mine >= 0 &&
          try_channel(g, pair, first + static_cast<std::uint32_t>(mine), d, out);
  }
  Team::sync();  // the team comes after the acquires of its lanes
  return got;
}

/// Gives a channel back: free if its command was answered, else quarantined. One thread calls. Its
/// own accesses to the command's memory come before, those of others that it has met at a barrier,
/// too. If their loads and stores are settled, `order` may be after_settling.
__device__ __forceinline__ void return_channel(queue_group_ref const& g, channel const& c,
                                               bool answered,
                                               memory_order order = memory_order_release) {
  queue_pair_ref const& q = g.pairs[c.pair];
  atomic_ref<std::uint64_t, scope::device> const word(q.channels[c.number]);
  direction const d = direction_of_channel(word.load(memory_order_relaxed));
  word.store(
      channel_word(c.sequence, d, answered ? channel_phase::free : channel_phase::quarantined),
      order);
  if (!answered)
    atomic_ref<std::uint64_t, scope::system>(g.control->timeouts)
        .fetch_add(1, memory_order_relaxed);
}

}  // namespace gpufs::nvme
