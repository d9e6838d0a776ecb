// A group's access to a filesystem: the handle, the group, a claimed context slot, the file it read
// last.
#pragma once

#include <gpufs/cache/lra.hpp>
#include <gpufs/fs_ref.hpp>
#include <gpufs/io/counters.hpp>
#include <gpufs/io/group.hpp>
#include <gpufs/io/shared_file.hpp>
#include <gpufs/rpc/client.hpp>

#include <prefetcher/readahead.hpp>

#include <cerrno>
#include <cstdint>

namespace gpufs {

namespace detail {

/// Gives a slot's chunks back. All lanes of one warp of the owner call.
GPUFS_STAGE inline void drop_chunks(fs_ref const* handle, prefetch::readahead_state* state) {
  prefetch::readahead(*handle, state).drop_all();
  if (lane_id() == 0) state->advised.fd = 0;  // the next owner looks for itself
}

}  // namespace detail

/// Made by all threads of a group together (a threadblock, or
/// cooperative_groups::tiled_partition<32> of one), before its first file call; passed to every
/// call; destroyed by all of them together. Claims a context slot for as long as it lives; without
/// a free slot everything works, but reads are not prefetched and frames come from the shared pool.
/// A group can have several.
template <class Group>
class io_context {
 public:
  using ops = group_ops<Group>;

  __device__ io_context(fs_ref const& fs, Group const& group) : fs_(fs), group_(group) {
    std::uint64_t slot = ~0ull;
    if (group_.thread_rank() == 0) {
      slot = claim_slot();
      if constexpr (is_block<Group>) scratch().missing = {};
    }
    slot_ = static_cast<std::int32_t>(ops::broadcast(group_, slot));
  }

  __device__ ~io_context() {
    ops::sync(group_);
    if (prefetching() && ops::warp(group_) == 0) detail::drop_chunks(fs_.self, chunks());
    // Pairs with the acquire in claim_slot(): the next owner sees what we left in the slot.
    if (slot_ >= 0 && group_.thread_rank() == 0) {
      own_queue(fs_.cache.lra, slot_, false);
      atomic_ref<std::uint32_t, scope::device>(*fs_.claimed_slots)
          .fetch_sub(1, memory_order_relaxed);
      atomic_ref<std::uint32_t, scope::device>(fs_.slots[slot_]).store(0, memory_order_release);
    }
  }
  io_context(io_context const&) = delete;
  io_context& operator=(io_context const&) = delete;

  __device__ fs_ref const& fs() const { return fs_; }
  __device__ Group const& group() const { return group_; }
  /// Number of the claimed slot, or -1.
  __device__ std::int32_t slot() const { return slot_; }
  /// Whether this context's misses go through a prefetch buffer.
  __device__ bool prefetching() const {
    return slot_ >= 0 && fs_.prefetch.states != nullptr && ops::warps(group_) != 0;
  }
  /// The slot's prefetch buffer, or null.
  __device__ prefetch::readahead_state* chunks() const {
    return prefetching() ? fs_.prefetch.states + slot_ : nullptr;
  }
  __device__ used_file& file() { return file_; }

 private:
  __device__ std::uint64_t claim_slot() {
    std::uint32_t const count = fs_.slot_count;
    std::uint32_t at = warp_number() % count;
    for (std::uint32_t i = 0; i < count; ++i, at = at + 1 == count ? 0 : at + 1) {
      atomic_ref<std::uint32_t, scope::device> slot(fs_.slots[at]);
      std::uint32_t expected = 0;
      if (slot.load(memory_order_relaxed) == 0 &&
          slot.compare_exchange_strong(expected, 1, memory_order_acquire, memory_order_relaxed)) {
        own_queue(fs_.cache.lra, static_cast<std::int32_t>(at), true);
        atomic_ref<std::uint32_t, scope::device>(*fs_.claimed_slots)
            .fetch_add(1, memory_order_relaxed);
        return at;
      }
    }
    return ~0ull;
  }

  fs_ref const fs_;
  Group const group_;
  std::int32_t slot_ = -1;
  used_file file_;
};

}  // namespace gpufs
