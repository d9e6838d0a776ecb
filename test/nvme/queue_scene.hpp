// What suites of the device's queue pairs share: a controller with queues and data in memory that
// kernels reach, and kernels that read and check blocks.
#pragma once

#include <gpufs/base/mix64.hpp>
#include <gpufs/nvme/prp.hpp>
#include <gpufs/nvme/queue_group.hpp>
#include <gpufs/nvme/transfer.hpp>

#include <test/nvme/pattern.hpp>
#include <test/nvme/pinned_memory.hpp>

#include <nvme-host/control_plane.hpp>
#include <nvme-host/controller_link.hpp>

#include <cstdint>
#include <memory>
#include <vector>

namespace gpufs::test {

/// Queue pairs 1 to `pairs` of a controller that is up.
inline std::vector<nvme::queue_pair_place> make_pairs(nvme_host::control_plane& plane,
                                                      std::uint32_t pairs, std::uint32_t depth) {
  std::vector<nvme::queue_pair_place> places;
  for (std::uint32_t id = 1; id <= pairs; ++id) {
    auto const& made = plane.create_queue_pair(static_cast<std::uint16_t>(id), depth);
    places.push_back({id, depth, made.sq, made.cq, made.sq_doorbell, made.cq_doorbell});
  }
  return places;
}

/// What a kernel of readers found.
struct read_counts {
  std::uint64_t right;    ///< reads whose bytes were right
  std::uint64_t wrong;    ///< reads that succeeded with wrong bytes
  std::uint64_t late;     ///< -ETIMEDOUT
  std::uint64_t failed;   ///< -EIO
  std::uint64_t refused;  ///< other errors
};

/// How a kernel reads. Each thread has `slot_bytes` of the data to itself.
struct read_plan {
  nvme::queue_group_ref group;
  std::byte* data;
  std::uint64_t bus;  ///< of the data
  std::uint32_t slot_bytes;
  std::uint32_t rounds;       ///< reads of each thread
  std::uint32_t most_blocks;  ///< of one read; at most slot_bytes
  std::uint64_t blocks;       ///< of the namespace that are read
  std::uint64_t seed;
  std::uint32_t stop_after_error;  ///< nonzero: a thread reads no more after an error
};

__device__ inline std::uint32_t grid_thread() { return blockIdx.x * blockDim.x + threadIdx.x; }

/// A thread's place in the data: its address for the controller.
__device__ inline nvme::prp_pair slot_memory(read_plan const& plan, std::uint32_t thread,
                                             std::uint64_t bytes) {
  std::uint64_t const at = plan.bus + std::uint64_t{thread} * plan.slot_bytes;
  // Slots of a page or less lie in one page.
  return {at, bytes > nvme::page_bytes ? at + nvme::page_bytes : 0};
}

__device__ inline bool slot_is_right(std::byte* slot, std::uint64_t lba, std::uint64_t blocks) {
  for (std::uint64_t i = 0; i < blocks * 64; ++i) {
    auto const word = *reinterpret_cast<std::uint64_t volatile*>(slot + 8 * i);
    if (word != pattern_word(lba + i / 64, i % 64)) return false;
  }
  return true;
}

__device__ inline void add_result(read_counts* out, std::int32_t error, bool right) {
  std::uint64_t& which = error == 0            ? right ? out->right : out->wrong
                         : error == -ETIMEDOUT ? out->late
                         : error == -EIO       ? out->failed
                                               : out->refused;
  atomic_ref<std::uint64_t, scope::device>(which).fetch_add(1, memory_order_relaxed);
}

/// Threads read random blocks, each lane as it likes, and check every byte.
template <class Team>
__global__ void read_kernel(read_plan plan, read_counts* out) {
  std::uint32_t const thread = grid_thread();
  std::byte* const slot = plan.data + std::uint64_t{thread} * plan.slot_bytes;
  bool ended = false;
  for (std::uint32_t round = 0; round < plan.rounds; ++round) {
    std::uint64_t const random = base::mix64(plan.seed + thread * 0x10001ull + round);
    std::uint32_t const blocks = 1 + static_cast<std::uint32_t>(random % plan.most_blocks);
    std::uint64_t const lba = (random >> 16) % (plan.blocks - blocks);
    bool const wants = !ended && (random >> 60) != 0;  // now and then a lane has no command
    nvme::transfer_request const request{
        nvme::direction::read,
        {lba, blocks},
        slot_memory(plan, thread, std::uint64_t{blocks} * pattern_lba)};
    std::int32_t const error = nvme::transfer<Team>(plan.group, wants, request);
    if (wants) {
      add_result(out, error, error == 0 && slot_is_right(slot, lba, blocks));
      ended = error != 0 && plan.stop_after_error != 0;
    }
    if constexpr (Team::size > 1) __syncwarp();
  }
}

}  // namespace gpufs::test
