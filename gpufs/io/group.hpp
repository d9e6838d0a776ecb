// The file API's view of the calling group: warps, barrier, vote, broadcast, shared scratch.
#pragma once

#include <gpufs/base/warp.hpp>
#include <gpufs/device.hpp>
#include <gpufs/fs_ref.hpp>
#include <gpufs/io/write/write_page.hpp>
#include <gpufs/source/fill.hpp>

#include <cstdint>
#include <cstring>
#include <type_traits>

namespace gpufs::io {

using namespace base;

/// Pages that the hit path leaves over. Bit i is page i of the batch.
struct missing_pages {
  std::uint32_t todo = 0;    ///< not delivered
  std::uint32_t absent = 0;  ///< of these, not in the page table
};

/// The outcome of a step of the first warp. Bit i is page i of the batch.
struct batch_step {
  std::uint32_t moving = 0;    ///< the group's warps must pull or copy them
  std::uint32_t fetching = 0;  ///< this group brings them in itself; some may have failed
  std::uint32_t waiting = 0;   ///< another caller is bringing them in
  std::uint32_t again = 0;     ///< no pin, no channel; try again
  /// of these, the chunk failed, came short or is older than a write
  std::uint32_t chunk_failed = 0;
  std::uint32_t registered = 0;  ///< of those moving, pulled from file windows
  std::uint32_t ahead = 0;       ///< not 0: the prefetcher has something to do
};

/// A value as 8-byte words, the form in which group_ops::broadcast moves it.
template <class T>
struct words_of {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 32);
  static constexpr unsigned count = (sizeof(T) + 7) / 8;
  std::uint64_t word[count] = {};

  __device__ explicit words_of(T const& value) { std::memcpy(word, &value, sizeof(T)); }
  __device__ T value() const {
    T out;
    std::memcpy(&out, word, sizeof(T));
    return out;
  }
};

/// The pages of a block's batch under way. A call reads or writes, so both share the memory. It has
/// no initial value.
union batch_record {
  __device__ batch_record() {}
  source::fill read[source::batch_pages];
  write_page written[source::batch_pages];
};

/// Shared memory of a block for its collective calls, about 2 KB. All contexts of the block share
/// it: calls follow each other, with barriers between uses.
struct block_scratch {
  batch_record pages;
  std::uint64_t value[4];  ///< what broadcast() moves
  std::uint64_t stop;
  missing_pages missing;  ///< union over the warps; 0 between batches
  batch_step step;
  std::uint32_t next_unit;  ///< of the work that warps share
  /// A copy of the handle of the context that was made last, and where it was copied from. The copy
  /// in GPU memory leaves the L1 with each acquire, and an access then takes ten times as long.
  alignas(fs_ref) unsigned char handle[sizeof(fs_ref)];
  fs_ref const* handle_of;
};

__device__ __forceinline__ block_scratch& scratch() {
  __shared__ block_scratch s;
  return s;
}

template <class Group>
inline constexpr bool is_block = std::is_same_v<Group, cooperative_groups::thread_block>;

/// A 32-thread tile. It is one warp, and all exchange is by shuffles.
template <class Group>
struct group_ops {
  static_assert(!is_block<Group>);
  __device__ static unsigned warps(Group const& g) { return g.size() == warp_size ? 1 : 0; }
  __device__ static unsigned warp(Group const&) { return 0; }
  /// Whether the calling thread counts what the whole group has done. It belongs to the last full
  /// warp: the first one is the busiest, and the next call mostly waits for it.
  __device__ static bool keeps_count(Group const& g) { return g.thread_rank() == 0; }
  __device__ static void sync(Group const& g) { g.sync(); }
  /// As sync(), for threads that come from different places of the code.
  __device__ static void sync_anywhere(Group const& g) { g.sync(); }
  __device__ static bool any(Group const& g, bool mine) { return g.any(mine); }
  /// The first thread's value, in every thread. T is trivially copyable, of at most 32 bytes.
  template <class T>
  __device__ static T broadcast(Group const&, T const& value) {
    words_of<T> words(value);
    GPUFS_UNROLL
    for (unsigned i = 0; i < words_of<T>::count; ++i) words.word[i] = warp_broadcast(words.word[i]);
    return words.value();
  }
  /// As any(). If true, leaves the union of the warps' bits for the first warp's take_missing().
  __device__ static bool any_missing(Group const& g, bool mine, missing_pages const&) {
    return g.any(mine);
  }
  /// Any warp calls, behind any_missing() and before drop_missing(), forget_missing() or share().
  __device__ static missing_pages take_missing(missing_pages const& own) { return own; }
  /// Forgets the union instead. All threads call, after a barrier behind any_missing() and before
  /// another one.
  __device__ static void drop_missing(Group const&) {}
  /// The same. The first warp calls, behind take_missing(). No other warp may look at the union:
  /// none does if the batch has one page.
  __device__ static void forget_missing(Group const&) {}
  /// The first warp's step, in every thread, after a barrier.
  __device__ static batch_step share(Group const& g, batch_step const& step) {
    g.sync();
    return step;
  }
  /// What a thread keeps of a batch's entries: its lane's.
  using entries = source::fill;
  /// home(): where the calling lane's entry is kept. look(): page i's entry, in every lane.
  __device__ static source::fill* home(entries& own) { return &own; }
  __device__ static source::fill look(entries const& own, int i) { return warp_broadcast(own, i); }
  /// The next unit of work for this warp. Each unit goes to one warp. `last` is the caller's last
  /// unit, or -1.
  __device__ static unsigned next_unit(unsigned last) { return last + 1; }
  /// The smallest of the values that the first lanes of the warps give, in every thread.
  __device__ static std::uint64_t smallest(Group const&, std::uint64_t value) { return value; }
  /// All threads call, before a barrier and the first use of what the group shares.
  __device__ static void make_scratch(Group const&) {}
  /// All threads call, between barriers. Gives handle() a copy near by.
  __device__ static void copy_handle(Group const&, fs_ref const&) {}
  /// The handle, for stages. Its address is valid in threads of the group.
  __device__ static fs_ref const* handle(fs_ref const& fs) { return fs.self; }
};

/// A threadblock. Its full warps work. Threads of a last, partial warp only take part in barriers.
template <>
struct group_ops<cooperative_groups::thread_block> {
  using group = cooperative_groups::thread_block;
  __device__ static unsigned warps(group const& g) {
    return static_cast<unsigned>(g.size()) / warp_size;
  }
  __device__ static unsigned warp(group const& g) {
    return static_cast<unsigned>(g.thread_rank()) / warp_size;
  }
  __device__ static bool keeps_count(group const& g) {
    return g.thread_rank() == (g.size() / warp_size - 1) * warp_size;
  }
  __device__ static void sync(group const&) { __syncthreads(); }
  __device__ static void sync_anywhere(group const&) { block_barrier_anywhere(); }
  __device__ static bool any(group const&, bool mine) { return __syncthreads_or(mine) != 0; }
  template <class T>
  __device__ static T broadcast(group const& g, T const& value) {
    words_of<T> words(value);
    __syncthreads();  // uses of value[] are over
    if (g.thread_rank() == 0) {
      GPUFS_UNROLL
      for (unsigned i = 0; i < words_of<T>::count; ++i) scratch().value[i] = words.word[i];
    }
    __syncthreads();
    GPUFS_UNROLL
    for (unsigned i = 0; i < words_of<T>::count; ++i) words.word[i] = scratch().value[i];
    return words.value();
  }
  __device__ static bool any_missing(group const& g, bool mine, missing_pages const& bits) {
    if (lane_id() == 0 && warp(g) < warps(g)) {
      // Relaxed, since the barrier orders them before the first warp's loads.
      if (bits.todo != 0)
        atomic_ref<std::uint32_t, scope::block>(scratch().missing.todo)
            .fetch_or(bits.todo, memory_order_relaxed);
      if (bits.absent != 0)
        atomic_ref<std::uint32_t, scope::block>(scratch().missing.absent)
            .fetch_or(bits.absent, memory_order_relaxed);
    }
    return __syncthreads_or(mine) != 0;
  }
  __device__ static missing_pages take_missing(missing_pages const&) { return scratch().missing; }
  __device__ static void drop_missing(group const& g) {
    if (g.thread_rank() == 0) scratch().missing = {};
  }
  __device__ static void forget_missing(group const& g) {
    __syncwarp();  // all lanes have taken it
    drop_missing(g);
  }
  __device__ static batch_step share(group const& g, batch_step const& step) {
    if (g.thread_rank() == 0) {
      scratch().step = step;
      scratch().next_unit = 0;
    }
    __syncthreads();
    if (g.thread_rank() == 0) scratch().missing = {};  // all threads are done with it
    return scratch().step;
  }
  /// The entries are in shared memory.
  struct entries {};
  __device__ static source::fill* home(entries&) { return &scratch().pages.read[lane_id()]; }
  __device__ static source::fill look(entries const&, int i) { return scratch().pages.read[i]; }
  __device__ static unsigned next_unit(unsigned) {
    std::uint32_t unit = 0;
    if (lane_id() == 0)
      unit = atomic_ref<std::uint32_t, scope::block>(scratch().next_unit)
                 .fetch_add(1, memory_order_relaxed);
    return warp_broadcast(unit);
  }
  __device__ static std::uint64_t smallest(group const& g, std::uint64_t value) {
    __syncthreads();
    if (g.thread_rank() == 0) scratch().stop = ~0ull;
    __syncthreads();
    if (lane_id() == 0 && warp(g) < warps(g)) {
      atomic_ref<std::uint64_t, scope::block>(scratch().stop)
          .fetch_min(value, memory_order_relaxed);
    }
    __syncthreads();
    return scratch().stop;
  }
  /// On the emulated device the first use makes the object, and the barrier tells the others.
  __device__ static void make_scratch(group const& g) {
    if (g.thread_rank() == 0) static_cast<void>(scratch());
  }
  __device__ static void copy_handle(group const& g, fs_ref const& fs) {
    static_assert(sizeof(fs_ref) % sizeof(std::uint64_t) == 0);
    constexpr unsigned words = sizeof(fs_ref) / sizeof(std::uint64_t);
    auto const* const from = reinterpret_cast<std::uint64_t const*>(fs.self);
    auto* const to = reinterpret_cast<std::uint64_t*>(scratch().handle);
    for (unsigned i = static_cast<unsigned>(g.thread_rank()); i < words;
         i += static_cast<unsigned>(g.size()))
      to[i] = from[i];
    if (g.thread_rank() != 0) return;
    // The first word, which the same thread has copied.
    reinterpret_cast<fs_ref*>(scratch().handle)->self =
        reinterpret_cast<fs_ref const*>(scratch().handle);
    scratch().handle_of = fs.self;
  }
  /// A context of another filesystem that was made later has taken the place of the copy.
  __device__ static fs_ref const* handle(fs_ref const& fs) {
    return scratch().handle_of == fs.self ? reinterpret_cast<fs_ref const*>(scratch().handle)
                                          : fs.self;
  }
};

}  // namespace gpufs::io
