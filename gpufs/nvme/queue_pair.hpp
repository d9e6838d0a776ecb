// The device's side of NVMe queue pairs: commands go in, completions are handed out.
#pragma once

#include <gpufs/nvme/channel.hpp>
#include <gpufs/nvme/entry_access.hpp>
#include <gpufs/nvme/queue_group_ref.hpp>

#include <cerrno>
#include <cstdint>

namespace gpufs::nvme {

// Why a ticket's slot is always free. A pair of D entries has at most D - 1 channels. A caller
// holds its channel from before its ticket until the completion was drained. So of the tickets t -
// D + 1 to t two have the same channel, and the earlier one is complete. Controllers take entries
// in order. So they also took that of ticket t - D, which used the slot of t.
//
// Why it does not hang. The mover needs the tickets before it to be filled, and their owners fill
// them without waiting. Completions are drained by anybody who waits. No lock is held across a
// wait. At most D - 1 commands are under way, and a head is rung every D / 2 entries, so 2 D
// completion entries never fill up. Every wait looks at its deadline and at the controller's state.

inline constexpr unsigned most_drain_rounds = 8;
/// Completion entries of a look that expects few. All entries of a warp's lanes are 512 bytes of
/// the bus, for nothing if the queue is empty. Such looks took most of the bus's small reads.
inline constexpr unsigned few_entries = 4;
inline constexpr std::uint32_t first_look_pause_ns = 300;
inline constexpr std::uint32_t longest_look_pause_ns = 4096;
inline constexpr unsigned longest_pause_ns = 4096;  ///< of a wait
inline constexpr std::uint64_t locked = 1;

__device__ __forceinline__ std::uint32_t slot_of(queue_pair_ref const& q, std::uint32_t ticket) {
  return ticket & ((1u << q.log2) - 1);
}
/// The mark of a ticket's entry. Never 0, the mark of new queues.
__device__ __forceinline__ std::uint32_t tag_of(queue_pair_ref const& q, std::uint32_t ticket) {
  return (ticket >> q.log2) + 1;
}
/// Lanes from lane 0 on that have their bit set.
__device__ __forceinline__ unsigned leading_lanes(unsigned ballot) {
  return ballot == all_lanes ? warp_size : lowest_lane(~ballot);
}

/// Adds to a count of a queue. Its holder's plain store could arrive behind the lock's release, so
/// that the next holder's would be lost: on a GPU nothing orders the two.
__device__ __forceinline__ void add_held(std::uint64_t& count, std::uint64_t by) {
  atomic_ref<std::uint64_t, scope::device>(count).fetch_add(by, memory_order_relaxed);
}

/// Tries to lock `word`. All lanes of the team call, and get its state. False: somebody has it.
template <class Team>
__device__ __forceinline__ bool try_lock(std::uint64_t& word, std::uint64_t& state) {
  bool mine = false;
  state = 0;
  if (Team::lane() == 0) {
    atomic_ref<std::uint64_t, scope::device> const ref(word);
    state = ref.load(memory_order_relaxed);
    // Pairs with the store that unlocks.
    mine = (state & locked) == 0 &&
           ref.compare_exchange_strong(state, state | locked, memory_order_acquire,
                                       memory_order_relaxed);
  }
  mine = Team::ballot(mine) != 0;
  if (mine) {
    state = Team::broadcast(state);
    Team::sync();  // the team comes after the acquire
  }
  return mine;
}

/// Whether the entry at the tail is complete, and nobody is at it. All lanes of the team call.
template <class Team>
__device__ __forceinline__ bool may_move_tail(queue_pair_ref const& q) {
  bool complete = false;
  if (Team::lane() == 0) {
    std::uint64_t const state =
        atomic_ref<std::uint64_t, scope::device>(q.words->tail).load(memory_order_relaxed);
    auto const tail = static_cast<std::uint32_t>(state >> 32);
    complete =
        (state & locked) == 0 && atomic_ref<std::uint32_t, scope::device>(q.marks[slot_of(q, tail)])
                                         .load(memory_order_relaxed) == tag_of(q, tail);
  }
  return Team::ballot(complete) != 0;
}

/// Rings the doorbell for the entries that are complete. All lanes of the team call. Never waits:
/// if another team is at it, that one does it, or the next that comes.
template <class Team>
__device__ void move_tail(queue_pair_ref const& q) {
  if (!may_move_tail<Team>(q)) return;  // as most teams that wait: no lock is taken for nothing
  std::uint64_t state;
  if (!try_lock<Team>(q.words->tail, state)) return;
  auto const first = static_cast<std::uint32_t>(state >> 32);
  std::uint32_t tail = first;
  for (;;) {
    std::uint32_t const at = tail + Team::lane();
    // Pairs with put(): the entry is complete.
    bool const complete =
        atomic_ref<std::uint32_t, scope::device>(q.marks[slot_of(q, at)]).load(mark_load_order) ==
        tag_of(q, at);
    unsigned const run = leading_lanes(Team::ballot(complete));
    tail += run;
    if (run != Team::size) break;
  }
  Team::sync();
  if (Team::lane() == 0) {
    if (tail != first) {
      ring(q.sq_doorbell, slot_of(q, tail));
      add_held(q.words->doorbells, 1);
    }
    atomic_ref<std::uint64_t, scope::device>(q.words->tail)
        .store(std::uint64_t{tail} << 32, after_settling);
  }
}

/// What the caller of a read is told: 0, -EAGAIN (send it again), or -errno. Counts errors, and
/// those that are the driver's mistakes.
__device__ __forceinline__ std::int32_t result_of(queue_pair_ref const& q, cqe const& e,
                                                  direction d) {
  std::uint16_t const code = status_of(e);
  if (code == status::success) return 0;
  add_held(q.words->failed, 1);
  if (own_fault(code)) add_held(q.words->own_faults, 1);
  return worth_retry(code, !may_retry(e)) ? -EAGAIN : error_of(code, d);
}

/// Hands a completion to its command. False: it is of no command.
__device__ __forceinline__ bool deliver(queue_pair_ref const& q, cqe const& e) {
  std::uint32_t const number = slot_of(q, cid_of(e));
  if (number >= q.channel_count || sq_id_of(e) != q.id) return false;
  std::uint64_t const word =
      atomic_ref<std::uint64_t, scope::device>(q.channels[number]).load(memory_order_relaxed);
  auto const sequence = static_cast<std::uint32_t>(word >> 32);
  if (phase_of_channel(word) == channel_phase::free ||
      command_id(number, sequence, q.log2) != cid_of(e))
    return false;
  atomic_ref<std::uint64_t, scope::device> const completion(q.completions[number]);
  if (rpc::completion_sequence(completion.load(memory_order_relaxed)) == sequence) return false;
  // Pairs with load_completion().
  completion.store(rpc::pack_completion(sequence, result_of(q, e, direction_of_channel(word))),
                   after_settling);
  return true;
}

/// Where completions of a group's own channels go. Other receivers have the same functions.
struct group_receiver {
  group_control* control;

  /// One lane calls for each completion. False: it is of no command.
  __device__ bool take(queue_pair_ref const& q, cqe const& e) const { return deliver(q, e); }
  /// One lane calls.
  __device__ void count_strays(unsigned strays) const {
    atomic_ref<std::uint64_t, scope::system>(control->strays)
        .fetch_add(strays, memory_order_relaxed);
  }
};

/// Whether a lane before the caller has a completion of the same command. All lanes of the team
/// call; `here`: the lane has one.
template <class Team>
__device__ __forceinline__ bool is_double(bool here, cqe const& e) {
  if constexpr (Team::size == 1) return false;
  std::uint32_t const key = here ? cid_of(e) : ~std::uint32_t{Team::lane()};
  return lowest_lane(__match_any_sync(all_lanes, key)) != Team::lane();
}

/// Takes the completions that are there, of a locked completion queue. Looks at `width` entries,
/// and at more if all of these are new. Returns the new head.
template <class Team, class Receiver>
__device__ std::uint32_t take_completions(Receiver const& to, queue_pair_ref const& q,
                                          std::uint32_t head, unsigned width) {
  std::uint32_t const mask = (2u << q.log2) - 1;
  std::uint32_t const first = head;
  unsigned strays = 0;
  GPUFS_ROLLED
  for (unsigned round = 0; round < most_drain_rounds; ++round) {
    std::uint32_t const at = head + Team::lane();
    cqe entry{};
    bool is_new = false;
    if (Team::lane() < width) {
      entry = load_entry(q.cq[at & mask]);
      is_new = phase_of(entry.dw[3]) == phase_at(at, q.log2 + 1);
    }
    unsigned const run = leading_lanes(Team::ballot(is_new));
    bool const here = Team::lane() < run;
    bool const twice = is_double<Team>(here, entry);
    bool const stray = here && (twice || !to.take(q, entry));
    strays += count_lanes(Team::ballot(stray));
    head += run;
    if (run != width) break;
    width = Team::size;
    Team::sync();  // a double is seen in the next round
  }
  if (Team::lane() == 0) {
    if (head == first) add_held(q.words->empty_looks, 1);
    add_held(q.words->drained, head - first - strays);
    if (strays != 0) {
      add_held(q.words->strays, strays);
      to.count_strays(strays);
    }
  }
  return head;
}

/// Hands out completions that have come. All lanes of the team call. Never waits.
template <class Team, class Receiver>
__device__ void drain(Receiver const& to, queue_pair_ref const& q) {
  atomic_ref<std::uint32_t, scope::device> const next_look(q.words->next_look);
  atomic_ref<std::uint32_t, scope::device> const last_found(q.words->last_found);
  bool early = false;
  unsigned width = least(few_entries, Team::size);
  if (Team::lane() == 0) {
    if (last_found.load(memory_order_relaxed) >= few_entries) width = Team::size;
    // The time is in the future by less than the longest pause, or it has passed.
    std::uint32_t const left =
        next_look.load(memory_order_relaxed) - static_cast<std::uint32_t>(device_clock_ns());
    early = left - 1 < longest_look_pause_ns;
  }
  if (Team::ballot(early) != 0) return;
  std::uint64_t state;
  if (!try_lock<Team>(q.words->head, state)) return;
  auto const first = static_cast<std::uint32_t>(state >> 32);
  std::uint32_t rung = static_cast<std::uint32_t>(state) >> 1;
  std::uint32_t const head = take_completions<Team>(to, q, first, Team::broadcast(width));
  Team::sync();
  if (Team::lane() != 0) return;
  if (((head - rung) & 0x7fffffffu) >= 1u << q.log2 >> 1) {
    ring(q.cq_doorbell, head & ((2u << q.log2) - 1));
    rung = head & 0x7fffffffu;
    add_held(q.words->head_doorbells, 1);
  }
  atomic_ref<std::uint32_t, scope::device> const pause(q.words->look_pause);
  std::uint32_t const longer = least(2 * pause.load(memory_order_relaxed), longest_look_pause_ns);
  std::uint32_t const next = head != first ? first_look_pause_ns : longer;
  pause.store(next, memory_order_relaxed);
  last_found.store(head - first, memory_order_relaxed);
  next_look.store(static_cast<std::uint32_t>(device_clock_ns()) + next, memory_order_relaxed);
  atomic_ref<std::uint64_t, scope::device>(q.words->head)
      .store(std::uint64_t{head} << 32 | std::uint64_t{rung} << 1, after_settling);
}

/// Does what waits have in common. All lanes of the team call. Never waits.
template <class Team>
__device__ void help(queue_group_ref const& g, std::uint32_t pair) {
  queue_pair_ref const& q = g.pairs[pair];
  move_tail<Team>(q);
  drain<Team>(group_receiver{g.control}, q);
}

/// Calls f(pair) for each distinct pair of the lanes with `has`. All lanes of the team call f.
template <class Team, class Pair, class F>
__device__ __forceinline__ void for_each_pair(bool has, Pair pair, F&& f) {
  GPUFS_ROLLED
  for (unsigned left = Team::ballot(has); left != 0;) {
    Pair const one = Team::broadcast(pair, static_cast<int>(lowest_lane(left)));
    unsigned const lanes = Team::ballot(has && pair == one);
    f(one, lanes);
    left &= ~lanes;
  }
}

/// Puts the entries of `lanes` into one queue. All lanes of the team call. Only a test that plants
/// a fault gives another order.
template <class Team, memory_order Mark = after_settling>
__device__ void put(queue_pair_ref const& q, unsigned lanes, sqe const& entry) {
  std::uint32_t ticket = 0;
  int const leader = static_cast<int>(lowest_lane(lanes));
  Team::sync();  // the draw comes after the lanes took their channels
  if (static_cast<int>(Team::lane()) == leader)
    ticket = atomic_ref<std::uint32_t, scope::device>(q.words->ticket)
                 .fetch_add(count_lanes(lanes), draw_order);
  ticket = Team::broadcast(ticket, leader);
  Team::sync();
  if ((lanes >> Team::lane() & 1) != 0) {
    std::uint32_t const mine = ticket + rank_in(lanes, Team::lane());
    store_entry(q.sq[slot_of(q, mine)], entry);
    // Pairs with move_tail().
    atomic_ref<std::uint32_t, scope::device>(q.marks[slot_of(q, mine)])
        .store(tag_of(q, mine), Mark);
  }
  Team::sync();
}

/// Sends the command of each lane with `sends`. All lanes of the team call; each sender owns `c`,
/// and its command has any CID. Never waits. If somebody else holds the tail, the doorbell is left
/// to them, or to the next help().
template <class Team>
__device__ void submit(queue_group_ref const& g, bool sends, channel const& c, sqe const& command) {
  sqe entry = command;
  for_each_pair<Team>(sends, c.pair, [&](std::uint32_t pair, unsigned lanes) {
    queue_pair_ref const& q = g.pairs[pair];
    entry.dw[0] = (entry.dw[0] & 0xffff) | std::uint32_t{command_id(c.number, c.sequence, q.log2)}
                                               << 16;
    put<Team>(q, lanes, entry);
    move_tail<Team>(q);
  });
}

}  // namespace gpufs::nvme
