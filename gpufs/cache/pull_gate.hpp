// Bounds how many warps pull from host memory at once.
#pragma once

#include <gpufs/fs_ref.hpp>
#include <gpufs/warp.hpp>

#include <cstdint>

namespace gpufs {

/// Held by a warp from its first pull to its last. The bus needs some 100 KB under way to be busy;
/// what is beyond that only queues, and everything else that crosses the bus queues behind it:
/// polls, requests, and the fences that wait for them. 1920 warps with 4 KiB each make a queue of
/// 150 us; with a bounded number it stays at a few. Whoever is inside waits for nothing but its own
/// loads, so that the wait for it is bounded. All of `lanes` of a warp call everything. Bytes that
/// do not come over the bus need not pass.
class pull_gate {
 public:
  __device__ explicit pull_gate(fs_ref const& fs, unsigned lanes = all_lanes)
      : fs_(fs), lanes_(lanes) {}

  /// Goes in, if not there yet, or waits to.
  __device__ __forceinline__ void pass() {
    if (!inside_ && rank_in(lanes_) == 0) {
      atomic_ref<std::uint32_t, scope::device> under_way(*fs_.pulls_under_way);
      // Relaxed: the count orders nothing. Whoever finds it full leaves it alone until it is not.
      for (unsigned pause = 0; under_way.fetch_add(1, memory_order_relaxed) >= fs_.most_pulls;) {
        under_way.fetch_sub(1, memory_order_relaxed);
        do {
          backoff(pause, 2048);
        } while (under_way.load(memory_order_relaxed) >= fs_.most_pulls);
      }
    }
    inside_ = true;
    __syncwarp(lanes_);
  }
  __device__ ~pull_gate() {
    __syncwarp(lanes_);
    if (inside_ && rank_in(lanes_) == 0)
      atomic_ref<std::uint32_t, scope::device>(*fs_.pulls_under_way)
          .fetch_sub(1, memory_order_relaxed);
  }
  pull_gate(pull_gate const&) = delete;
  pull_gate& operator=(pull_gate const&) = delete;

 private:
  fs_ref const& fs_;
  unsigned lanes_;
  bool inside_ = false;
};

}  // namespace gpufs
