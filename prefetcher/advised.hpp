// The advice for the file that a context reads, as its prefetcher sees it.
#pragma once

#include <gpufs/advice.hpp>
#include <gpufs/base/warp.hpp>
#include <gpufs/fs_ref.hpp>

#include <prefetcher/readahead_state.hpp>

#include <cstdint>

namespace gpufs::prefetch {

/// The advice in a descriptor's record; normal if the descriptor has been closed. One thread calls.
__device__ __forceinline__ std::uint32_t load_advice(fs_ref const& fs, std::int32_t fd) {
  rpc::open_file_record& record = fs.link.shared.open_files[rpc::descriptor_index(fd)];
  auto const word = [](std::uint64_t& w) {
    return atomic_ref<std::uint64_t, scope::system>(w).load(memory_order_acquire);
  };
  auto const advised = static_cast<std::uint32_t>(word(record.advice));
  return word(record.tag) == rpc::descriptor_generation(fd) ? advised : 0;
}

/// The advice for `fd`. The seat of `state` is about to request pages of it. All lanes of the
/// owner's first warp call.
///
/// Advice by kernels is seen at once. Advice by the host is seen when a context begins to use the
/// descriptor, and every `looks_apart` calls. The host's word lies across the bus, so looks are
/// rare.
__device__ __forceinline__ advice current_advice(fs_ref const& fs, readahead_state* state,
                                                 std::int32_t fd) {
  std::uint32_t value = 0;
  if (lane_id() == 0) {
    advice_seen& seen = state->advised;
    auto const epoch = [&] {
      // Pairs with the release in file_registry::bump_epoch(). A thread that sees the new epoch
      // sees the records of that time.
      return atomic_ref<std::uint64_t, scope::system>(fs.link.shared.control->epoch)
          .load(memory_order_acquire);
    };
    atomic_ref<std::uint32_t, scope::device> changes(*fs.seats.advice_changes);
    std::uint32_t const now = changes.load(memory_order_relaxed);
    bool look = (seen.fd != fd) | (now != seen.changes);  // one trip for both
    if (++seen.calls % looks_apart == 0) look |= epoch() != seen.epoch;
    if (look) {
      seen.changes = changes.load(memory_order_acquire);  // pairs with the release in advise_file()
      seen.epoch = epoch();
      seen.value = load_advice(fs, fd);
      seen.fd = fd;
    }
    value = seen.value;
  }
  return static_cast<advice>(base::warp_broadcast(value));
}

}  // namespace gpufs::prefetch
