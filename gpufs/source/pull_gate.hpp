// Bounds how many warps pull from host memory at once.
#pragma once

#include <gpufs/base/reduce.hpp>
#include <gpufs/base/warp.hpp>
#include <gpufs/fs_ref.hpp>

#include <cstdint>

namespace gpufs::source {

using namespace base;

/// A warp is inside from its first pull to its last. The bus is busy with about 100 KB under way.
/// More pulls only queue, and polls and requests queue behind them. 1920 warps with 4 KiB each make
/// a queue of 150 us; the setting pulls_in_flight bounds it.
///
/// A warp inside waits only for its own loads, so waits at the gate are bounded. All of `lanes` of
/// a warp make every call. Bytes that do not cross the bus need not pass.
class pull_gate {
 public:
  __device__ explicit pull_gate(fs_ref const& fs, unsigned lanes = all_lanes)
      : fs_(fs), lanes_(lanes) {}

  /// Enters the gate, and waits if it is full. Returns at once if the warp is inside.
  __device__ __forceinline__ void pass() {
    if (!inside_ && rank_in(lanes_) == 0) {
      atomic_ref<std::uint32_t, scope::device> under_way(*fs_.channels.pulling);
      // Relaxed: the count orders nothing. A warp that finds it full only looks until it is not.
      for (unsigned pause = 0;
           under_way.fetch_add(1, memory_order_relaxed) >= fs_.channels.most_pulling;) {
        under_way.fetch_sub(1, memory_order_relaxed);
        do {
          backoff(pause, 2048);
        } while (under_way.load(memory_order_relaxed) >= fs_.channels.most_pulling);
      }
    }
    inside_ = true;
    __syncwarp(lanes_);
  }
  __device__ ~pull_gate() {
    __syncwarp(lanes_);
    if (inside_ && rank_in(lanes_) == 0)
      base::reduce_add(*fs_.channels.pulling, ~std::uint32_t{0}, memory_order_relaxed);  // one less
  }
  pull_gate(pull_gate const&) = delete;
  pull_gate& operator=(pull_gate const&) = delete;

 private:
  fs_ref const& fs_;
  unsigned lanes_;
  bool inside_ = false;
};

}  // namespace gpufs::source
