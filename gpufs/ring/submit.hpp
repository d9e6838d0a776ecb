// Puts requests into the rings.
#pragma once

#include <gpufs/base/warp.hpp>
#include <gpufs/device.hpp>
#include <gpufs/fs_ref.hpp>
#include <gpufs/rpc/channel_places.hpp>

#include <cstdint>

namespace gpufs::ring {

using namespace base;

// Why a ticket's slot is always free. A caller holds its channel from before it takes a ticket
// until it has the answer. A ring has N slots, and at most N channels use it. So of the N tickets
// before ticket t, at least one, j, shares its channel with a later ticket <= t. Ticket j was
// answered before its channel was used again, so before t was drawn. The daemon takes tickets in
// order. So it also took ticket t - N <= j, which used the slot of t. No credits are needed, and no
// ticket stays uncommitted.

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

/// A slot of the ring that serves a channel.
struct slot_place {
  std::uint64_t ticket;
  std::uint64_t index;  ///< in the slots of all rings
};
/// Takes the next ticket of the channel's ring. Any single thread calls.
__device__ __forceinline__ slot_place take_slot(fs_ref const& fs, std::uint32_t channel) {
  rpc::shared_region const& shared = fs.link.shared;
  std::uint32_t const ring =
      rpc::place_of_channel(channel, static_cast<std::uint32_t>(shared.rings));
  std::uint64_t const ticket =
      atomic_ref<std::uint64_t, scope::device>(fs.link.tails[ring * handle::tail_stride])
          .fetch_add(1, ticket_order);
  return {ticket, ring * shared.slots + (ticket & (shared.slots - 1))};
}

/// Puts a request, the same in all lanes, into its ring. All lanes of a warp call. The caller owns
/// r.channel. Never waits.
template <carries Carries = carries::nothing>
__device__ __forceinline__ void submit(fs_ref const& fs, rpc::request const& r) {
  unsigned const lane = lane_id();
  slot_place place{};
  if (lane == 0) place = take_slot(fs, r.channel);
  place.ticket = warp_broadcast(place.ticket);
  place.index = warp_broadcast(place.index);
  __syncwarp();
  rpc::slot& slot = fs.link.shared.ring[place.index];
  if (lane < rpc::words_per_slot) {  // one coalesced store crosses the bus as one packet
    // Pairs with the acquire in daemon::request_queue. A daemon thread that sees the tags also sees
    // the data in staging, if there is any.
    atomic_ref<std::uint64_t, scope::system>(slot.word[lane])
        .store(rpc::pack_word(r, lane, rpc::lap_tag(place.ticket, fs.link.shared.slots)),
               Carries == carries::staged_data ? memory_order_release : bare_request_order);
  }
  __syncwarp();
}

/// Puts the calling thread's request into its ring. Any single thread calls; it owns r.channel.
/// Never waits.
template <carries Carries = carries::nothing>
__device__ __forceinline__ void submit_alone(fs_ref const& fs, rpc::request const& r) {
  slot_place const place = take_slot(fs, r.channel);
  rpc::slot& slot = fs.link.shared.ring[place.index];
  for (unsigned i = 0; i < rpc::words_per_slot; ++i) {
    // Pairs with the acquire in daemon::request_queue. bare_request_order has the reason for the
    // order.
    atomic_ref<std::uint64_t, scope::system>(slot.word[i])
        .store(rpc::pack_word(r, i, rpc::lap_tag(place.ticket, fs.link.shared.slots)),
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
    slot_place const place = take_slot(fs, r.channel);
    at = place.index;
    GPUFS_UNROLL
    for (unsigned i = 0; i < rpc::words_per_slot; ++i)
      word[i] = rpc::pack_word(r, i, rpc::lap_tag(place.ticket, fs.link.shared.slots));
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

}  // namespace gpufs::ring
