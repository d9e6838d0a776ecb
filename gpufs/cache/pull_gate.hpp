// Bounds how many warps pull from host memory at once.
#pragma once

#include <gpufs/fs_ref.hpp>
#include <gpufs/warp.hpp>

#include <cstdint>

namespace gpufs {

/// Held by a warp while it pulls. The bus needs some 100 KB under way to be busy; what is beyond that only queues, and everything else
/// that crosses the bus queues behind it: polls, requests, and the fences that wait for them. 1920 warps with 4 KiB each make a
/// queue of 150 us; with a bounded number it stays at a few. Whoever passes the gate waits for nothing but its own loads, so that the wait
/// before it is bounded. All of `lanes` of a warp construct and destroy it. Bytes that do not come over the bus pass beside it.
class pull_gate {
 public:
  __device__ pull_gate(fs_ref const& fs, bool over_bus, unsigned lanes = all_lanes)
      : fs_(fs), lanes_(lanes), counts_(over_bus && rank_in(lanes) == 0) {
    if (counts_) {
      atomic_ref<std::uint32_t, scope::device> under_way(*fs.pulls_under_way);
      for (unsigned pause = 0;;) {
        // Relaxed: the count orders nothing.
        if (under_way.load(memory_order_relaxed) < fs.most_pulls) {
          if (under_way.fetch_add(1, memory_order_relaxed) < fs.most_pulls) break;
          under_way.fetch_sub(1, memory_order_relaxed);
        }
        backoff(pause, 2048);
      }
    }
    __syncwarp(lanes_);
  }
  __device__ ~pull_gate() {
    __syncwarp(lanes_);
    if (counts_) atomic_ref<std::uint32_t, scope::device>(*fs_.pulls_under_way).fetch_sub(1, memory_order_relaxed);
  }
  pull_gate(pull_gate const&) = delete;
  pull_gate& operator=(pull_gate const&) = delete;

 private:
  fs_ref const& fs_;
  unsigned lanes_;
  bool counts_;
};

}  // namespace gpufs
