// What device code needs of NVMe queue pairs. Plain memory: nothing here is owned.
#pragma once

#include <gpufs/nvme/format.hpp>

#include <cstdint>

namespace gpufs::nvme {

/// Words of a queue pair that only device code changes, in GPU memory. Each is on a line of its
/// own. The two locks share a word with what they protect, so the store that unlocks also
/// publishes.
struct queue_words {
  /// next ticket to hand out; wraps freely
  alignas(128) std::uint32_t ticket;
  /// ticket up to which the doorbell was rung << 32 | bit 0: locked
  alignas(128) std::uint64_t tail;
  /// head of the completion queue << 32 | head last rung (31 bits) << 1 | bit 0: locked
  alignas(128) std::uint64_t head;
  /// low bits of the device's clock: nobody looks at the completion queue before
  alignas(128) std::uint32_t next_look;
  std::uint32_t look_pause;  ///< ns from one empty look to the next; with `head` locked
  std::uint32_t last_found;  ///< completions that the last look found; with `head` locked

  // Counts of the holders of `tail` and `head`.
  alignas(128) std::uint64_t doorbells;
  std::uint64_t head_doorbells;
  std::uint64_t drained;      ///< completions that found their command
  std::uint64_t empty_looks;  ///< at the completion queue
  std::uint64_t strays;       ///< completions of no command
  std::uint64_t own_faults;   ///< statuses that say the driver made a mistake
  std::uint64_t failed;       ///< all statuses but success
};

/// One place of the controller's state. It exists many times, as the daemon's stop flag does.
struct alignas(128) state_place {
  std::uint64_t failed;  ///< nonzero: all waits end with -EIO
  /// Of the first place. Nonzero: a reader of a block file had no answer in time. The device
  /// stores.
  std::uint64_t no_answer;
};
inline constexpr unsigned state_places = 128;

/// A queue pair: D submission entries, 2 D completion entries, at most D - 1 channels.
struct queue_pair_ref {
  // Memory that the controller reaches, too.
  sqe* sq = nullptr;
  cqe* cq = nullptr;
  std::uint32_t* sq_doorbell = nullptr;
  std::uint32_t* cq_doorbell = nullptr;
  // GPU memory.
  queue_words* words = nullptr;
  std::uint32_t* marks = nullptr;        ///< D: tag of the last complete entry of each slot
  std::uint64_t* channels = nullptr;     ///< by channel: see channel.hpp
  std::uint64_t* completions = nullptr;  ///< by channel: sequence << 32 | result
  std::uint32_t log2 = 0;                ///< of D
  std::uint32_t channel_count = 0;
  std::uint32_t id = 0;
  // Pairs that serve the channels of a filesystem: see ring/block_requests.hpp.
  std::uint32_t place = 0;    ///< number of the pair, as of rpc::place_of_channel()
  std::uint32_t places = 0;   ///< pairs of the member
  std::uint32_t backing = 0;  ///< number of the backing
  std::uint32_t member = 0;   ///< of the backing
  /// state_places in pinned memory. Failed: the controller has stopped, or reaches staging no more.
  state_place* ended = nullptr;
};

/// Pinned memory of a group.
struct group_control {
  state_place state[state_places];      ///< the host writes
  alignas(128) std::uint64_t timeouts;  ///< the device adds: callers that gave up
  std::uint64_t strays;                 ///< the device adds
};

/// The queue pairs of one controller.
struct queue_group_ref {
  queue_pair_ref const* pairs = nullptr;  ///< in GPU memory
  std::uint32_t count = 0;
  std::uint32_t nsid = 1;
  group_control* control = nullptr;
  std::uint64_t timeout_ns = 0;
};

}  // namespace gpufs::nvme
