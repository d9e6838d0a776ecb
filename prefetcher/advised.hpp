// What has been said of the file that a context reads, as its prefetcher sees it.
#pragma once

#include <gpufs/advice.hpp>
#include <gpufs/fs_ref.hpp>
#include <gpufs/warp.hpp>

#include <prefetcher/readahead_state.hpp>

#include <cstdint>

namespace gpufs::prefetch {

/// The advice in a descriptor's record; normal if the descriptor has been closed. One thread calls.
__device__ __forceinline__ std::uint32_t load_advice(fs_ref const& fs, std::int32_t fd) {
  rpc::open_file_record& record = fs.shared.open_files[rpc::descriptor_index(fd)];
  auto const word = [](std::uint64_t& w) {
    return atomic_ref<std::uint64_t, scope::system>(w).load(memory_order_acquire);
  };
  auto const advised = static_cast<std::uint32_t>(word(record.advice));
  return word(record.tag) == rpc::descriptor_generation(fd) ? advised : 0;
}

/// The advice that holds for `fd`, of which the slot of `state` is about to request pages. All
/// lanes of the owner's first warp call. What kernels say is seen at once. What the host says is
/// seen when a context begins to use the descriptor, and every `looks_apart` calls: the host's word
/// lies across the bus.
__device__ __forceinline__ advice current_advice(fs_ref const& fs, readahead_state* state,
                                                 std::int32_t fd) {
  std::uint32_t value = 0;
  if (lane_id() == 0) {
    advice_seen& seen = state->advised;
    auto const epoch = [&] {
      // Pairs with the release in the registry: who sees the new epoch sees the records as they are
      // now.
      return atomic_ref<std::uint64_t, scope::system>(fs.shared.control->epoch)
          .load(memory_order_acquire);
    };
    atomic_ref<std::uint32_t, scope::device> changes(*fs.advice_changes);
    bool look = seen.fd != fd || changes.load(memory_order_relaxed) != seen.changes;
    if (++seen.calls % looks_apart == 0) look |= epoch() != seen.epoch;
    if (look) {
      seen.changes = changes.load(memory_order_acquire);  // pairs with the release in advise_file()
      seen.epoch = epoch();
      seen.value = load_advice(fs, fd);
      seen.fd = fd;
    }
    value = seen.value;
  }
  return static_cast<advice>(warp_broadcast(value));
}

}  // namespace gpufs::prefetch
