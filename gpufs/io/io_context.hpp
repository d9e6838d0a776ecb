// A group's access to a filesystem: the handle, the group, a seat, the file that it used last.
#pragma once

#include <gpufs/base/mix64.hpp>
#include <gpufs/cache/replacement/seat_queues.hpp>
#include <gpufs/file/shared_file.hpp>
#include <gpufs/fs_ref.hpp>
#include <gpufs/handle/counters.hpp>
#include <gpufs/io/element/lane_gate.hpp>
#include <gpufs/io/group.hpp>
#include <gpufs/ring/channel.hpp>

#include <prefetcher/readahead.hpp>

#include <cerrno>
#include <cstdint>

namespace gpufs {

namespace io {

using namespace base;

/// Gives a seat's chunks back. All lanes of one warp of the seat's owner call.
GPUFS_LIBRARY_STAGE void drop_chunks(fs_ref const* __restrict__ handle,
                                     prefetch::readahead_state* state) {
  prefetch::readahead(*handle, state).drop_all();
  if (lane_id() != 0) return;
  state->advised.fd = 0;  // the next owner loads the advice again
  state->uncontested = 0;
}

}  // namespace io

// gpufs/io.hpp has the contract.
template <class Group>
class io_context {
 public:
  using ops = io::group_ops<Group>;

  __device__ io_context(fs_ref const& fs, Group const& group) : fs_(fs), group_(group) {
    ops::make_scratch(group_);
    ops::sync(group_);  // no lane is at a gate any more: it may have one by another context
    io::reset_warp_gate();
    ops::copy_handle(group_, fs);
    ops::sync(group_);
    if (ops::warps(group_) == 0) return;  // all calls of a group without a warp are refused
    std::int32_t seat = -1;
    if (group_.thread_rank() == 0) {
      seat = claim_seat();
      if constexpr (io::is_block<Group>) io::scratch().missing = {};
    }
    seat_ = ops::broadcast(group_, seat);
  }

  /// Threads may have returned early, and so come from different places of the code.
  __device__ ~io_context() {
    ops::sync_anywhere(group_);
    if (prefetching() && ops::warp(group_) == 0) io::drop_chunks(fs_.self, chunks());
    // Pairs with the acquire in claim_seat(): the next owner sees the seat as this one left it.
    if (seat_ >= 0 && group_.thread_rank() == 0) {
      cache::own_queue(fs_.cache.lra, seat_, false);
      atomic_ref<std::uint32_t, scope::device>(*fs_.seats.claimed)
          .fetch_sub(1, memory_order_relaxed);
      atomic_ref<std::uint32_t, scope::device>(fs_.seats.states[seat_])
          .store(0, memory_order_release);
      atomic_ref<std::uint32_t, scope::device>(*fs_.seats.freed)
          .store(static_cast<std::uint32_t>(seat_), memory_order_relaxed);
    }
  }
  io_context(io_context const&) = delete;
  io_context& operator=(io_context const&) = delete;

  __device__ fs_ref const& fs() const { return fs_; }
  /// The handle for stages of collective calls. No thread keeps it beyond a call.
  __device__ fs_ref const* handle() const { return ops::handle(fs_); }
  __device__ Group const& group() const { return group_; }
  /// The number of the seat, or -1.
  __device__ std::int32_t seat() const { return seat_; }
  /// Whether this context's misses use chunks of the prefetcher.
  __device__ bool prefetching() const {
    return seat_ >= 0 && fs_.prefetch.states != nullptr && ops::warps(group_) != 0;
  }
  /// The seat's chunks, or null.
  __device__ prefetch::readahead_state* chunks() const {
    return prefetching() ? fs_.prefetch.states + seat_ : nullptr;
  }
  __device__ file::used_file& file() { return file_; }

 private:
  // A seat is counted after its claim, and the count falls before its release. So a count of all
  // seats means that none is free, and no seat need be looked at.
  __device__ std::int32_t claim_seat() {
    std::uint32_t const count = fs_.seats.count;
    atomic_ref<std::uint32_t, scope::device> claimed(*fs_.seats.claimed);
    // Side by side: look-ups of queues to take frames from go through all seats in use.
    std::uint32_t const number = io::is_block<Group> ? base::block_number() : base::warp_number();
    if (claimed.load(memory_order_relaxed) >= count) return -1;
    if (try_seat(number % count)) return static_cast<std::int32_t>(number % count);
    // Another context has that seat. With few free seats the one that was freed last is the best
    // guess, with many any other that is not far beyond those in use.
    std::uint32_t const freed =
        atomic_ref<std::uint32_t, scope::device>(*fs_.seats.freed).load(memory_order_relaxed);
    constexpr std::uint32_t near_by = 16, guesses = 8;
    std::uint32_t const some = base::least(count, 2 * claimed.load(memory_order_relaxed) + 64);
    for (std::uint32_t i = 0; i < near_by + guesses + count; ++i) {
      std::uint64_t const at = i < near_by             ? std::uint64_t(freed) + i
                               : i < near_by + guesses ? base::mix64(number * guesses + i) % some
                                                       : std::uint64_t(freed) + i;
      auto const seat = static_cast<std::uint32_t>(at % count);
      if (try_seat(seat)) return static_cast<std::int32_t>(seat);
    }
    return -1;
  }

  __device__ bool try_seat(std::uint32_t at) {
    atomic_ref<std::uint32_t, scope::device> seat(fs_.seats.states[at]);
    std::uint32_t expected = 0;
    if (seat.load(memory_order_relaxed) != 0 ||
        !seat.compare_exchange_strong(expected, 1, memory_order_acquire, memory_order_relaxed))
      return false;
    cache::own_queue(fs_.cache.lra, static_cast<std::int32_t>(at), true);
    atomic_ref<std::uint32_t, scope::device>(*fs_.seats.claimed).fetch_add(1, memory_order_relaxed);
    return true;
  }

  fs_ref const fs_;
  Group const group_;
  std::int32_t seat_ = -1;
  file::used_file file_;
};

}  // namespace gpufs
