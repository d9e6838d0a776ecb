// Commands of queue pairs in the order that the memory model asks for: the mark of an entry is a
// release, its load an acquire, and the doorbell a release of system scope. All else is the
// library's. It shows what loading entries back saves, see gpufs/nvme/entry_access.hpp.
#pragma once

#include <gpufs/nvme/transfer.hpp>

#include <cstdint>

namespace gpufs::apps {

template <class Team>
struct formal_order {
  /// As nvme::help().
  static __device__ void help(nvme::queue_group_ref const& g, std::uint32_t pair) {
    nvme::queue_pair_ref const& q = g.pairs[pair];
    move_tail(q);
    nvme::drain<Team>(nvme::group_receiver{g.control}, q);
  }

  /// As nvme::submit().
  static __device__ void submit(nvme::queue_group_ref const& g, bool sends, nvme::channel const& c,
                                nvme::sqe const& command) {
    nvme::sqe entry = command;
    nvme::for_each_pair<Team>(sends, c.pair, [&](std::uint32_t pair, unsigned lanes) {
      nvme::queue_pair_ref const& q = g.pairs[pair];
      std::uint32_t const cid = nvme::command_id(c.number, c.sequence, q.log2);
      entry.dw[0] = (entry.dw[0] & 0xffff) | cid << 16;
      put(q, lanes, entry);
      move_tail(q);
    });
  }

  /// As nvme::await().
  static __device__ std::int32_t await(nvme::queue_group_ref const& g, bool waits,
                                       nvme::channel const& c, bool& answered) {
    constexpr unsigned rounds_per_look = 16;
    std::uint64_t const start = device_clock_ns();
    unsigned pause = 0;
    std::int32_t result = 0, error = 0;
    answered = false;
    GPUFS_ROLLED
    for (unsigned round = 1;; ++round) {
      if (waits && !answered) {
        std::uint64_t const word = nvme::load_completion(g.pairs[c.pair], c.number);
        answered = rpc::completion_sequence(word) == c.sequence;
        result = answered ? rpc::completion_result(word) : error;
      }
      bool const open = waits && !answered;
      if (error != 0 || Team::ballot(open) == 0) break;
      if (round % 2 == 0)
        nvme::for_each_pair<Team>(open, c.pair,
                                  [&](std::uint32_t pair, unsigned) { help(g, pair); });
      if (round % rounds_per_look == 0) error = nvme::end_of_wait<Team>(g, start);
      if (error == 0) backoff(pause, nvme::longest_pause_ns);
    }
    Team::sync();
    return result;
  }

 private:
  static __device__ void put(nvme::queue_pair_ref const& q, unsigned lanes,
                             nvme::sqe const& entry) {
    std::uint32_t ticket = 0;
    int const leader = static_cast<int>(base::lowest_lane(lanes));
    Team::sync();
    if (static_cast<int>(Team::lane()) == leader)
      ticket = atomic_ref<std::uint32_t, scope::device>(q.words->ticket)
                   .fetch_add(base::count_lanes(lanes), memory_order_acq_rel);
    ticket = Team::broadcast(ticket, leader);
    Team::sync();
    if ((lanes >> Team::lane() & 1) != 0) {
      std::uint32_t const mine = ticket + base::rank_in(lanes, Team::lane());
      q.sq[nvme::slot_of(q, mine)] = entry;
      // Pairs with move_tail().
      atomic_ref<std::uint32_t, scope::device>(q.marks[nvme::slot_of(q, mine)])
          .store(nvme::tag_of(q, mine), memory_order_release);
    }
    Team::sync();
  }

  static __device__ void move_tail(nvme::queue_pair_ref const& q) {
    if (!nvme::may_move_tail<Team>(q)) return;
    std::uint64_t state = 0;
    if (!nvme::try_lock<Team>(q.words->tail, state)) return;
    auto const first = static_cast<std::uint32_t>(state >> 32);
    std::uint32_t tail = first;
    for (;;) {
      std::uint32_t const at = tail + Team::lane();
      bool const complete = atomic_ref<std::uint32_t, scope::device>(q.marks[nvme::slot_of(q, at)])
                                .load(memory_order_acquire) == nvme::tag_of(q, at);
      unsigned const run = nvme::leading_lanes(Team::ballot(complete));
      tail += run;
      if (run != Team::size) break;
    }
    Team::sync();
    if (Team::lane() != 0) return;
    if (tail != first) {
      atomic_ref<std::uint32_t, scope::system>(*q.sq_doorbell)
          .store(nvme::slot_of(q, tail), memory_order_release);
      nvme::add_held(q.words->doorbells, 1);
    }
    // The next holder's doorbell comes behind this one's.
    atomic_ref<std::uint64_t, scope::device>(q.words->tail)
        .store(std::uint64_t{tail} << 32, memory_order_release);
  }
};

}  // namespace gpufs::apps
