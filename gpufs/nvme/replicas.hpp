// Which replica of a block file a kernel reads: they take turns, and one that fails is out of turn
// for a while.
#pragma once

#include <gpufs/device.hpp>
#include <gpufs/nvme/block_backing.hpp>

#include <cstdint>

namespace gpufs::nvme {

// No order is needed: a thread that looks too early sends one more read to a replica that fails.

/// The first replica that is in turn from number `turn` on, modulo their count. If none is, the one
/// that has been out for longest. Any thread calls, for any backing.
__device__ __forceinline__ std::uint32_t replica_for(block_backing const& b, std::uint32_t turn) {
  if (b.out_until == nullptr) return turn;
  std::uint64_t const now = device_clock_ns();
  std::uint64_t earliest = ~std::uint64_t{0};
  std::uint32_t best = 0;
  GPUFS_ROLLED
  for (std::uint32_t i = 0; i < b.member_count; ++i) {
    std::uint32_t const member = (turn + i) % b.member_count;
    std::uint64_t const until =
        atomic_ref<std::uint64_t, scope::device>(b.out_until[member]).load(memory_order_relaxed);
    if (until <= now) return member;
    if (until < earliest) earliest = until, best = member;
  }
  return best;
}

/// A read of `member` has failed. Any thread calls. Returns whether there are other replicas.
__device__ __forceinline__ bool take_out_of_turn(block_backing const& b, std::uint32_t member) {
  if (b.out_until == nullptr) return false;
  atomic_ref<std::uint64_t, scope::device>(b.out_until[member])
      .store(device_clock_ns() + b.out_ns, memory_order_relaxed);
  return true;
}

}  // namespace gpufs::nvme
