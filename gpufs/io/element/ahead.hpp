// Pages that array::prefetch() has requested: the miss that needs one takes over its channel.
#pragma once

#include <gpufs/base/mix64.hpp>
#include <gpufs/dirty/write_counters.hpp>
#include <gpufs/fs_ref.hpp>
#include <gpufs/ring/ahead_page.hpp>
#include <gpufs/ring/channel.hpp>
#include <gpufs/source/staged.hpp>

#include <cstdint>

namespace gpufs::io {

using namespace base;

// A request ahead owes no page: its page is not in the page table, where others would wait for it.
// The entry holds the channel. The miss that needs the page enters it as any other, and then takes
// the channel with the answer, or the wait for it. Entries are at most a quarter of the page
// channels, so callers that wait for a channel always find others.

__device__ __forceinline__ atomic_ref<std::uint32_t, scope::device> phase_of_ahead(
    ring::ahead_page& a) {
  return atomic_ref<std::uint32_t, scope::device>(a.phase);
}

/// The only entry in which a page may be. Consecutive pages have different ones.
__device__ __forceinline__ ring::ahead_page& ahead_entry(fs_ref const& fs, std::uint64_t version,
                                                         std::uint64_t page) {
  return fs.ahead.pages[(page + mix64(version)) & (fs.ahead.count - 1)];
}

/// Whether the entry is of this page. Any thread calls. The answer holds for the entry's owner.
__device__ __forceinline__ bool is_ahead(ring::ahead_page& a, std::uint64_t version,
                                         std::uint64_t page) {
  return atomic_ref<std::uint64_t, scope::device>(a.version).load(memory_order_relaxed) ==
             version &&
         atomic_ref<std::uint64_t, scope::device>(a.page).load(memory_order_relaxed) == page;
}

/// Whether the page is requested ahead, and its channel is there to be taken. Any thread calls.
__device__ __forceinline__ bool is_requested(ring::ahead_page& a, std::uint64_t version,
                                             std::uint64_t page) {
  return phase_of_ahead(a).load(memory_order_relaxed) ==
             static_cast<std::uint32_t>(ring::ahead_phase::requested) &&
         is_ahead(a, version, page);
}

/// Becomes the owner of an entry that was seen in phase `seen`. Any thread calls. Acquire pairs
/// with leave_ahead().
__device__ __forceinline__ bool own_ahead(ring::ahead_page& a, std::uint32_t seen) {
  return seen != static_cast<std::uint32_t>(ring::ahead_phase::changing) &&
         phase_of_ahead(a).compare_exchange_strong(
             seen, static_cast<std::uint32_t>(ring::ahead_phase::changing), memory_order_acquire,
             memory_order_relaxed);
}
/// Stops to be the owner. All fields are settled first (settled.hpp): the caller's loads of them
/// are over, and its stores are in memory.
__device__ __forceinline__ void leave_ahead(ring::ahead_page& a, ring::ahead_phase now) {
  settle(a.channel, a.sequence, a.writes, a.version, a.page, a.expected);
  phase_of_ahead(a).store(static_cast<std::uint32_t>(now), after_settling);
}

/// Takes the channel of a page that was requested ahead. The calling lane has entered the page, and
/// brings it in. Never waits. Returns the channel, or one with sequence 0 if there is none.
///
/// The bytes are those that a request made now would get, or those of a frame filled at the time of
/// the request. Both are right under the page's version if nobody has written the page since. The
/// write counters show that, as for chunks (docs/design/write.md).
GPUFS_LIBRARY_STAGE ring::channel take_ahead(fs_ref const* __restrict__ handle,
                                             source::page_name const name) {
  fs_ref const& fs = *handle;
  ring::ahead_page& a = ahead_entry(fs, name.version, name.page);
  if (!is_requested(a, name.version, name.page) ||
      !own_ahead(a, static_cast<std::uint32_t>(ring::ahead_phase::requested)))
    return {};
  if (!is_ahead(a, name.version, name.page)) {
    leave_ahead(a, ring::ahead_phase::requested);
    return {};
  }
  ring::channel const taken{a.channel, a.sequence};
  std::uint64_t const begin = name.page << fs.cache.page_shift;
  bool const fresh =
      a.expected == name.expected &&
      (!name.zero_filled ||
       dirty::writes_counted(fs, name.version, begin, begin + name.expected) == a.writes);
  leave_ahead(a, ring::ahead_phase::empty);
  if (!fresh) {
    ring::give_up_channel(fs, fs.channels.page, taken);
    return {};
  }
  handle::add(fs, handle::counter::prefetch_hits);
  return taken;
}

/// Gives back the channel of an entry that the caller owns, if its request is answered: nobody came
/// for its page so far. Any thread calls. Never waits.
__device__ __forceinline__ bool drop_ahead(fs_ref const& fs, ring::ahead_page const& a) {
  ring::help_drives<one_lane>(fs.self, true, a.channel, 0);
  // Pairs with the daemon's release: its stores to the staging piece are over. Nobody loaded them.
  std::uint64_t const answer = ring::load_completion(fs, a.channel, memory_order_acquire);
  if (rpc::completion_sequence(answer) != a.sequence) return false;
  ring::return_channel(fs.channels.page, {a.channel, a.sequence}, true, after_settling);
  return true;
}

}  // namespace gpufs::io
