// Reads of block files: requests that go to NVMe queue pairs instead of the ring. The answer comes
// as from the daemon, in the channel's completion word.
#pragma once

#include <gpufs/base/settled.hpp>
#include <gpufs/base/warp.hpp>
#include <gpufs/fs_ref.hpp>
#include <gpufs/nvme/block_backing.hpp>
#include <gpufs/nvme/queue_pair.hpp>
#include <gpufs/nvme/replicas.hpp>
#include <gpufs/rpc/channel_places.hpp>

#include <cerrno>
#include <cstdint>

namespace gpufs::ring {

using namespace base;

// A channel has a CID of its own on one pair of each member: pair rpc::place_of_channel(number),
// CID number / pairs, and above it the low bits of the sequence. It has one command at a time. A
// caller keeps its channel until the answer, or leaves it in quarantine. So a pair never has more
// commands under way than CIDs, and submitting waits for nothing (queue_pair.hpp has the argument).
//
// Bytes arrive in the channel's staging piece. So waits, late answers and give-ups are those of
// ring/channel.hpp. A command that cannot have all bytes reads fewer; callers then ask for the
// rest, as after any short answer.
//
// Nobody but device code takes completions. So every wait for the answer to a read calls
// help_drives() now and then, and so does a caller that finds no channel for a page.

__device__ __forceinline__ atomic_ref<std::uint32_t, scope::device> sequence_of(
    handle::block_command& c) {
  return atomic_ref<std::uint32_t, scope::device>(c.sequence);
}
/// What a channel is owed a completion for.
struct owed_command {
  std::uint32_t sequence = 0;                  ///< 0: for nothing
  std::uint32_t bytes = 0;                     ///< that it reads
  nvme::queue_pair_ref const* pair = nullptr;  ///< null: nothing is owed
};
/// Any thread calls. The command may be answered meanwhile, and the channel have another one. Pair
/// and bytes are never older than the sequence. So a caller that gets this sequence from answer()
/// has its pair.
__device__ __forceinline__ owed_command owed_to(fs_ref const& fs, std::uint32_t channel) {
  handle::block_command& command = fs.blocks.commands[channel];
#if defined(__CUDACC__)
  // The record is loaded in one piece; owner/block_files_owner.hpp asserts the places. An acquire
  // would empty the L1 for each look.
  std::uint64_t pair, rest;
  asm volatile("ld.volatile.v2.u64 {%0, %1}, [%2];"
               : "=l"(pair), "=l"(rest)
               : "l"(&command)
               : "memory");
  auto const sequence = static_cast<std::uint32_t>(rest);
  auto const bytes = static_cast<std::uint32_t>(rest >> 32);
#else
  // Pairs with send_reads().
  std::uint32_t const sequence = sequence_of(command).load(memory_order_acquire);
  std::uint32_t const bytes =
      atomic_ref<std::uint32_t, scope::device>(command.bytes).load(memory_order_relaxed);
  std::uint64_t const pair =
      atomic_ref<std::uint64_t, scope::device>(command.pair).load(memory_order_relaxed);
#endif
  if (sequence == 0) return {};
  return {sequence, bytes, reinterpret_cast<nvme::queue_pair_ref const*>(pair)};
}

/// The answer of a controller that asks for another try. The daemon never gives it.
inline constexpr std::int32_t try_again = -ERESTART;

// Problem: on the GPU the release of an exchange waits for all pulls of the multiprocessor, while
//   the thread holds a completion queue.
// Trick: relaxed. What comes before it are loads, and the exchange needs their values. What comes
//   after it waits for its result.
#if defined(__CUDACC__)
inline constexpr memory_order answer_order = memory_order_relaxed;
#else
inline constexpr memory_order answer_order = memory_order_acq_rel;
#endif

/// Answers a channel's command, unless it has been answered. Any thread calls, for a completion or
/// for a pair that has ended. False: another thread was faster.
__device__ __forceinline__ bool answer(fs_ref const& fs, std::uint32_t channel,
                                       std::uint32_t sequence, std::int32_t result) {
  std::uint32_t seen = sequence;
  // One thread gets the command. The channel's owner stores no other one before it has the answer.
  if (!sequence_of(fs.blocks.commands[channel])
           .compare_exchange_strong(seen, 0, answer_order, memory_order_relaxed))
    return false;
  // Pairs with load_completion(), as the daemon's answer does. The bytes are there: the controller
  // has posted the completion behind them, and its entry has been loaded.
  atomic_ref<std::uint64_t, scope::system>(fs.link.shared.completions[channel].word)
      .store(rpc::pack_completion(sequence, result), after_settling);
  return true;
}

/// A place of a backing's entry. Any thread calls.
__device__ __forceinline__ handle::block_entry& entry_of(fs_ref const& fs, std::uint32_t number,
                                                         std::uint32_t place) {
  return fs.blocks.table[(number - 1) * handle::entry_places + place % handle::entry_places];
}

/// The backing of a pair, which has been published.
__device__ __forceinline__ nvme::block_backing const& backing_of(fs_ref const& fs,
                                                                 nvme::queue_pair_ref const& q) {
  // Never stored again. Its reader has had it from usable_backing() before, or has the pair of one.
  return *reinterpret_cast<nvme::block_backing const*>(
      atomic_ref<std::uint64_t, scope::system>(entry_of(fs, q.backing, warp_number()).backing)
          .load(memory_order_relaxed));
}

/// The answer to a read that a controller has failed. Another replica may have the bytes.
GPUFS_LIBRARY_STAGE std::int32_t answer_of_failure(fs_ref const* __restrict__ handle,
                                                   nvme::queue_pair_ref const* q,
                                                   std::int32_t error) {
  bool const others = nvme::take_out_of_turn(backing_of(*handle, *q), q->member);
  return others || error == -EAGAIN ? try_again : error;
}

/// Puts the answers of a pair's commands into the channels' completion words.
struct channel_receiver {
  fs_ref const* fs;

  __device__ bool take(nvme::queue_pair_ref const& q, nvme::cqe const& e) const {
    std::uint32_t const slot = nvme::slot_of(q, nvme::cid_of(e));
    std::uint64_t const number = rpc::channel_of_place(q.place, slot, q.places);
    if (nvme::sq_id_of(e) != q.id || slot >= q.channel_count || number >= fs->link.shared.channels)
      return false;
    owed_command const owed = owed_to(*fs, static_cast<std::uint32_t>(number));
    if (owed.pair != &q || nvme::command_id(slot, owed.sequence, q.log2) != nvme::cid_of(e))
      return false;
    std::int32_t const error = nvme::result_of(q, e, nvme::direction::read);
    return answer(
        *fs, static_cast<std::uint32_t>(number), owed.sequence,
        error == 0 ? rpc::read_result(owed.bytes, false) : answer_of_failure(fs, &q, error));
  }
  __device__ void count_strays(unsigned) const {}
};

/// nvme::for_each_pair() for the lanes with a pair.
template <class Team, class F>
__device__ __forceinline__ void for_each_drive_pair(nvme::queue_pair_ref const* pair, F&& f) {
  nvme::for_each_pair<Team>(pair != nullptr, reinterpret_cast<std::uint64_t>(pair),
                            [&](std::uint64_t one, unsigned lanes) {
                              f(*reinterpret_cast<nvme::queue_pair_ref const*>(one), lanes);
                            });
}

/// Attempts from one look at whether a pair has ended to the next. That word lies across the bus.
/// Prime, so that a caller whose attempts go through the channels looks at the pairs of all of
/// them.
inline constexpr unsigned attempts_per_end = 127;

/// Rings doorbells for, and takes completions of, the pairs that owe completions to the channels of
/// the lanes that wait. Now and then answers commands of pairs that have ended: with -EIO, or with
/// try_again if the daemon may read another replica. `attempt` counts the caller's calls. All lanes
/// of the team call. Never waits. Returns true in the lanes whose channel is still owed a
/// completion. Its answer shows here before it shows in the completion word, which lies across the
/// bus.
template <class Team>
GPUFS_STAGE bool help_drives(fs_ref const* __restrict__ handle, bool waits, std::uint32_t channel,
                             unsigned attempt) {
  fs_ref const& fs = *handle;
  owed_command owed;
  if (waits) owed = owed_to(fs, channel);
  // Pairs with the host's release: the controller writes to the channel's memory no more.
  if (owed.pair != nullptr && attempt % attempts_per_end == 0 &&
      nvme::state_of(owed.pair->ended).load(memory_order_acquire) != 0) {
    bool const replicas = backing_of(fs, *owed.pair).out_until != nullptr;
    answer(fs, channel, owed.sequence, replicas ? try_again : -EIO);
    owed.pair = nullptr;
  }
  for_each_drive_pair<Team>(owed.pair, [&](nvme::queue_pair_ref const& q, unsigned) {
    nvme::move_tail<Team>(q);
    nvme::drain<Team>(channel_receiver{handle}, q);
  });
  return owed.pair != nullptr &&
         sequence_of(fs.blocks.commands[channel]).load(memory_order_relaxed) == owed.sequence;
}

/// A caller has given up waiting for its answer. If a controller owes it, the daemon serves the
/// file from now on. One thread calls.
__device__ __forceinline__ void note_no_answer(fs_ref const& fs, std::uint32_t channel) {
  nvme::queue_pair_ref const* const pair = owed_to(fs, channel).pair;
  if (pair == nullptr) return;
  // The host resets the controller. Neither store announces other data.
  atomic_ref<std::uint64_t, scope::system>(pair->ended->no_answer).store(1, memory_order_relaxed);
  GPUFS_ROLLED
  for (unsigned i = 0; i < handle::entry_places; ++i)
    atomic_ref<std::uint64_t, scope::system>(entry_of(fs, pair->backing, i).failed)
        .store(1, memory_order_relaxed);
}

/// Half of the time of a wait for an answer is over. If other replicas may have the bytes, the host
/// resets the controller, and the daemon reads them in the rest of the time. One thread calls.
GPUFS_LIBRARY_STAGE void note_late_answer(fs_ref const* __restrict__ handle,
                                          std::uint32_t channel) {
  nvme::queue_pair_ref const* const pair = owed_to(*handle, channel).pair;
  if (pair != nullptr && backing_of(*handle, *pair).out_until != nullptr)
    note_no_answer(*handle, channel);
}

/// The backing of a request; null: the daemon serves the file.
__device__ __forceinline__ nvme::block_backing const* usable_backing(fs_ref const& fs,
                                                                     std::uint8_t number) {
  if (number == 0) return nullptr;
  handle::block_entry& e = entry_of(fs, number, warp_number());
#if defined(__CUDACC__)
  // One trip across the bus. The address leads to what the backing holds.
  std::uint64_t at, failed;
  asm volatile("ld.volatile.v2.u64 {%0, %1}, [%2];" : "=l"(at), "=l"(failed) : "l"(&e) : "memory");
#else
  // Pairs with the host's release: the backing is there.
  std::uint64_t const at =
      atomic_ref<std::uint64_t, scope::system>(e.backing).load(memory_order_acquire);
  std::uint64_t const failed =
      atomic_ref<std::uint64_t, scope::system>(e.failed).load(memory_order_relaxed);
#endif
  return failed != 0 ? nullptr : reinterpret_cast<nvme::block_backing const*>(at);
}

/// Sends the reads of those lanes whose files have a usable backing. All lanes of the team call;
/// each sender owns its channel. Never waits. Returns true in the lanes whose read was sent.
// The arguments travel in registers.
template <class Team>
GPUFS_STAGE bool send_reads(fs_ref const* __restrict__ handle, std::uint8_t backing,
                            std::uint32_t channel, std::uint32_t sequence, std::uint64_t offset,
                            std::uint64_t length, std::uint64_t staging) {
  fs_ref const& fs = *handle;
  nvme::queue_pair_ref const* pair = nullptr;
  nvme::sqe entry{};
  if (nvme::block_backing const* const b = usable_backing(fs, backing)) {
    std::uint32_t const turn =
        b->is_replicated ? rpc::replica_of_channel(channel, b->member_count) : 0;
    nvme::block_place const at = nvme::place_of(*b, offset, length, nvme::replica_for(*b, turn));
    nvme::block_member const& member = b->members[at.member];
    std::uint64_t const bytes = least(at.bytes, nvme::most_by_list(staging)) >> b->lba_shift
                                                                                    << b->lba_shift;
    if (bytes != 0) {
      pair = member.pairs + rpc::place_of_channel(channel, b->pairs);
      handle::block_command& command = fs.blocks.commands[channel];
      atomic_ref<std::uint64_t, scope::device>(command.pair)
          .store(reinterpret_cast<std::uint64_t>(pair), memory_order_relaxed);
      atomic_ref<std::uint32_t, scope::device>(command.bytes)
          .store(static_cast<std::uint32_t>(bytes), memory_order_relaxed);
      // Behind the pair: on the GPU both lie in the same 32 bytes.
      sequence_of(command).store(sequence, after_settling);
      settle(command.sequence, command.bytes, command.pair);
      entry = nvme::make_transfer(
          nvme::opcode::read, nvme::command_id(channel / b->pairs, sequence, pair->log2), b->nsid,
          {at.offset >> b->lba_shift, static_cast<std::uint32_t>(bytes >> b->lba_shift)},
          nvme::prps(member.staging, staging, bytes));
    }
  }
  for_each_drive_pair<Team>(pair, [&](nvme::queue_pair_ref const& q, unsigned lanes) {
    nvme::put<Team>(q, lanes, entry);
    nvme::move_tail<Team>(q);
  });
  return pair != nullptr;
}

}  // namespace gpufs::ring
