// Lets the lanes of a warp through one group at a time.
#pragma once

#include <gpufs/base/warp.hpp>
#include <gpufs/device.hpp>

#include <cstdint>

namespace gpufs::io {

using namespace base;

// Problem: lanes of a warp may diverge, and come to the same code in several groups. CUDA lets each
//   group have votes and shuffles of its own, by its mask. But groups that are at the same
//   instruction can get mixed up. On an H200 with CUDA 13.0 a vote takes lanes of another group for
//   its own. Lanes leave a barrier that others of their group still wait at, and the kernel hangs
//   (docs/memory-model.md, "Groups of lanes").
// Trick: lanes announce themselves in words of shared memory, and one of them lets all in. The next
// group comes in when all of its lanes have left.

/// The gate of a warp, in the block's shared memory. Bit i is lane i.
struct gate_words {
  std::uint32_t arrived;  ///< lanes that wait for their turn
  std::uint32_t inside;   ///< 0: the gate is free
  std::uint32_t last;     ///< the lane whose group came in last
};

/// The calling thread's warp's gate.
__device__ __forceinline__ gate_words& warp_gate() {
  constexpr unsigned most_warps = 1024 / warp_size;
  __shared__ gate_words gates[most_warps];
  unsigned const thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  return gates[thread / warp_size];
}

/// Makes the gate ready for use. All lanes of the warp call, with a barrier behind it, while no
/// lane is inside or waits.
__device__ __forceinline__ void reset_warp_gate() {
  if (lane_id() == 0) warp_gate() = {};
}

/// A word of a gate. All orders are relaxed: the words decide which lanes are inside, and nothing
/// else is passed on by them. A lane leaves by its mask, or behind a barrier of its group.
__device__ __forceinline__ atomic_ref<std::uint32_t, scope::block> gate_word(std::uint32_t& word) {
  return atomic_ref<std::uint32_t, scope::block>(word);
}

/// Waits until the calling lane is inside. Returns all lanes that have come in with it. The lanes
/// of `together` call, each for itself.
///
/// A lane that finds the gate free stores its own bit, so only one lane succeeds. Then it lets in
/// all lanes that have arrived. Its own bit is among them: only a group that let it in could have
/// taken it, and no lane leaves before all of its group have seen their bits. Each leaves behind a
/// shuffle of all of them.
__device__ __forceinline__ unsigned await_gate(gate_words& gate, converged_group const& together) {
  unsigned const bit = 1u << lane_id();
  auto const arrived = gate_word(gate.arrived);
  if (together.thread_rank() == 0) arrived.fetch_or(together.mask(), memory_order_relaxed);
  for (unsigned pause = 0;;) {
    std::uint32_t inside = gate_word(gate.inside).load(memory_order_relaxed);
    if ((inside & bit) != 0) return inside;
    if (inside != 0 || (arrived.load(memory_order_relaxed) & bit) == 0) {
      backoff(pause, 1000);
    } else if (gate_word(gate.inside).compare_exchange_strong(inside, bit, memory_order_relaxed)) {
      inside = arrived.exchange(0, memory_order_relaxed);
      gate_word(gate.inside).store(inside, memory_order_relaxed);
      return inside;
    }
  }
}

/// Takes the calling lane out of the gate.
__device__ __forceinline__ void leave_gate(gate_words& gate, unsigned bit) {
  gate_word(gate.inside).fetch_and(~bit, memory_order_relaxed);
}

/// Waits until the calling lane is in the gate's group, and returns the group's lanes. They gave
/// the same two keys. Any thread calls.
///
/// The caller gives its place inside back by leave_gate(), unless it is one of all 32 lanes: these
/// need no gate. Lanes with other keys that came in go back and wait. The group is that of the next
/// lane behind the last one whose group was chosen. So each lane has its turn, however often others
/// come again.
GPUFS_LIBRARY_STAGE unsigned pass_gate(std::uint64_t key, std::uint64_t second_key) {
  auto const same_keys = [&](unsigned lanes) {
    unsigned const first = __match_any_sync(lanes, key);
    return first & __match_any_sync(lanes, second_key);
  };
  gate_words& gate = warp_gate();
  unsigned const lane = lane_id();
  unsigned const bit = 1u << lane;
  for (;;) {
    converged_group const together = converged();
    // If the whole warp is here, no lane is inside or waits.
    if (together.mask() == all_lanes &&
        __all_sync(all_lanes, same_keys(all_lanes) == all_lanes) != 0)
      return all_lanes;
    unsigned const inside = await_gate(gate, together);
    unsigned const same = same_keys(inside);
    unsigned const last = __shfl_sync(inside, gate_word(gate.last).load(memory_order_relaxed),
                                      static_cast<int>(lowest_lane(inside)));
    unsigned const behind = inside & ~((2u << last) - 1);
    unsigned const next = lowest_lane(behind != 0 ? behind : inside);
    unsigned const chosen = __shfl_sync(inside, same, static_cast<int>(next));
    if (lane == next) gate_word(gate.last).store(lane, memory_order_relaxed);
    bool const goes = (chosen & bit) != 0;
    if (!goes || chosen == all_lanes) leave_gate(gate, bit);
    if (goes) return chosen;
  }
}

/// A number that tells instances of a template apart: the lower half of an address. A program has
/// less than 4 GiB of constants.
template <class Instance>
__device__ __forceinline__ std::uint32_t instance_number() {
  static char const tag = 0;
  return static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(&tag));
}

/// The calling lane's way through its warp's gate. While it lives, the lanes of group() are the
/// only ones of the warp inside. All of them give it back together. A thread has at most one. The
/// lanes of a group have the same `Instance`, descriptor and filesystem. An `Instance` is for one
/// place in the compiled code.
///
/// Waits for the group inside only. So lanes inside must not wait for lanes of their own warp.
template <class Instance>
class lane_gate {
 public:
  __device__ __forceinline__ lane_gate(void const* handle, std::int32_t fd)
      : lanes_(pass_gate(key_of(fd), reinterpret_cast<std::uintptr_t>(handle))) {}
  __device__ __forceinline__ ~lane_gate() {
    __syncwarp(lanes_);
    if (lanes_ != all_lanes) leave_gate(warp_gate(), 1u << lane_id());
  }
  lane_gate(lane_gate const&) = delete;
  lane_gate& operator=(lane_gate const&) = delete;

  [[nodiscard]] __device__ __forceinline__ converged_group group() const {
    return converged_group(lanes_);
  }

 private:
  __device__ __forceinline__ static std::uint64_t key_of(std::int32_t fd) {
    return std::uint64_t{instance_number<Instance>()} << 32 | static_cast<std::uint32_t>(fd);
  }

  unsigned lanes_;
};

}  // namespace gpufs::io
