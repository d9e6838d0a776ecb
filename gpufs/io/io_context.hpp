// A group's access to a filesystem: the handle, the group, a claimed context slot, the file it read last.
#pragma once

#include <gpufs/fs_ref.hpp>
#include <gpufs/io/counters.hpp>
#include <gpufs/io/group.hpp>
#include <gpufs/rpc/client.hpp>

#include <cerrno>
#include <cstdint>

namespace gpufs {

/// What a group knows of the descriptor it used last. Descriptors never change what they refer to while they are open.
struct used_file {
  std::int32_t fd = -1;
  std::uint64_t uid = 0;
  std::uint64_t size = 0;
};

/// Made by all threads of a group together (a threadblock, or cooperative_groups::tiled_partition<32> of one), before its first file
/// call; passed to every call; destroyed by all of them together. Claims a context slot for as long as it lives; without a free slot
/// everything works, but reads are not prefetched and frames come from the shared pool. A group can have several.
template <class Group>
class io_context {
 public:
  using ops = group_ops<Group>;

  __device__ io_context(fs_ref const& fs, Group const& group) : fs_(fs), group_(group) {
    std::uint64_t slot = ~0ull;
    if (group_.thread_rank() == 0) slot = claim_slot();
    slot_ = static_cast<std::int32_t>(ops::broadcast(group_, slot));
  }

  __device__ ~io_context() {
    ops::sync(group_);
    // Pairs with the acquire in claim_slot(): the next owner sees what we left in the slot.
    if (slot_ >= 0 && group_.thread_rank() == 0) {
      atomic_ref<std::uint32_t, scope::device>(fs_.slots[slot_]).store(0, memory_order_release);
    }
  }
  io_context(io_context const&) = delete;
  io_context& operator=(io_context const&) = delete;

  __device__ fs_ref const& fs() const { return fs_; }
  __device__ Group const& group() const { return group_; }
  /// Number of the claimed slot, or -1.
  __device__ std::int32_t slot() const { return slot_; }
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
