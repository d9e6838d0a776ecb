// The host's owner of what device code keeps of a controller's queue pairs.
#pragma once

#include <gpufs/device.hpp>
#include <gpufs/nvme/queue_group_ref.hpp>

#include <atomic>
#include <bit>
#include <cstdint>
#include <stdexcept>
#include <vector>

namespace gpufs::nvme {

/// Where an I/O queue pair of the controller lies. All of it is zeroed and unused.
struct queue_pair_place {
  std::uint32_t id = 0;
  std::uint32_t depth =
      0;  ///< submission entries, a power of two; twice as many completion entries
  sqe* sq = nullptr;
  cqe* cq = nullptr;
  std::uint32_t* sq_doorbell = nullptr;
  std::uint32_t* cq_doorbell = nullptr;
};

struct queue_group_options {
  std::uint64_t timeout_ns = 30'000'000'000;
  std::uint32_t nsid = 1;
  /// First ticket and first head: a multiple of 4 * depth. Tests begin close to a wrap.
  std::uint32_t first = 0;
};

/// Sums over a group's pairs.
struct queue_group_counts {
  std::uint64_t doorbells = 0;
  std::uint64_t head_doorbells = 0;
  std::uint64_t drained = 0;
  std::uint64_t empty_looks = 0;
  std::uint64_t strays = 0;
  std::uint64_t own_faults = 0;
  std::uint64_t timeouts = 0;
};

/// Marks all `state_places` of a controller's state as failed. Any thread of the host calls.
inline void mark_failed(state_place* places, std::memory_order order) noexcept {
  for (unsigned i = 0; i < state_places; ++i)
    std::atomic_ref<std::uint64_t>{places[i].failed}.store(1, order);
}

/// Device memory of the pairs of one controller. Destroy it once no kernel uses it, and the
/// controller has been stopped or the queues deleted.
class queue_group {
 public:
  /// All pairs have one depth. Throws std::invalid_argument, or device_error if there is no memory.
  queue_group(std::vector<queue_pair_place> const& places, queue_group_options const& options = {})
      : count_{static_cast<std::uint32_t>(places.size())},
        depth_{places.empty() ? 0 : places[0].depth},
        options_{options} {
    check(places);
    words_ = buffer<queue_words>(count_);
    marks_ = buffer<std::uint32_t>(std::uint64_t{count_} * depth_);
    channels_ = buffer<std::uint64_t>(std::uint64_t{count_} * depth_);
    completions_ = buffer<std::uint64_t>(std::uint64_t{count_} * depth_);
    pairs_ = buffer<queue_pair_ref>(count_);
    control_ = pinned_buffer<group_control>(1);
    marks_.fill_zero();
    channels_.fill_zero();
    completions_.fill_zero();
    control_.fill_zero();
    begin(places);
  }

  [[nodiscard]] queue_group_ref ref() const {
    return {pairs_.data(), count_, options_.nsid, control_.data(), options_.timeout_ns};
  }

  /// Ends all waits on the group with -EIO, for good. Any thread calls.
  void fail() { mark_failed(control_[0].state, std::memory_order_relaxed); }

  /// Callers that gave up, and completions of no command, so far. While kernels run, too.
  [[nodiscard]] std::uint64_t timeouts() const { return load(control_[0].timeouts); }
  [[nodiscard]] std::uint64_t strays() const { return load(control_[0].strays); }

  // Only while no kernel uses the group:

  [[nodiscard]] queue_group_counts counts() const {
    queue_group_counts sum;
    for (queue_words const& each : copy_of(words_)) {
      sum.doorbells += each.doorbells;
      sum.head_doorbells += each.head_doorbells;
      sum.drained += each.drained;
      sum.empty_looks += each.empty_looks;
      sum.strays += each.strays;
      sum.own_faults += each.own_faults;
    }
    sum.timeouts = timeouts();
    return sum;
  }
  /// Whether a kernel that ended badly left a queue locked: then the pairs must be made anew.
  [[nodiscard]] bool left_locked() const {
    for (queue_words const& each : copy_of(words_))
      if (((each.tail | each.head) & 1) != 0) return true;
    return false;
  }
  /// Channels that are not free.
  [[nodiscard]] std::uint64_t channels_taken() const {
    std::uint64_t sum = 0;
    for (std::uint64_t const word : copy_of(channels_)) sum += (word & 0xff) != 0 ? 1 : 0;
    return sum;
  }

 private:
  template <class T>
  static std::vector<T> copy_of(buffer<T> const& from) {
    std::vector<T> host(from.size());
    from.copy_to_host(host.data(), host.size());
    return host;
  }
  static std::uint64_t load(std::uint64_t& word) {
    return std::atomic_ref<std::uint64_t>{word}.load(std::memory_order_relaxed);
  }

  void check(std::vector<queue_pair_place> const& places) const {
    if (places.empty()) throw std::invalid_argument{"nvme: a group without queue pairs"};
    for (queue_pair_place const& each : places)
      if (each.depth != depth_ || !std::has_single_bit(depth_) || depth_ < 16 || depth_ > 4096)
        throw std::invalid_argument{
            "nvme: the depths of a group's queue pairs are one power of two from 16 to 4096"};
    if (options_.first % (4 * depth_) != 0)
      throw std::invalid_argument{"nvme: the first ticket is a multiple of four times the depth"};
  }

  void begin(std::vector<queue_pair_place> const& places) {
    std::vector<queue_pair_ref> refs(count_);
    std::vector<queue_words> words(count_);
    std::uint64_t const first = options_.first;
    for (std::uint32_t i = 0; i < count_; ++i) {
      queue_pair_place const& place = places[i];
      words[i] = {};
      words[i].ticket = options_.first;
      words[i].tail = first << 32;
      words[i].head = first << 32 | (first & 0x7fffffff) << 1;
      words[i].look_pause = 1;
      std::uint64_t const at = std::uint64_t{i} * depth_;
      refs[i] = {place.sq,
                 place.cq,
                 place.sq_doorbell,
                 place.cq_doorbell,
                 words_.data() + i,
                 marks_.data() + at,
                 channels_.data() + at,
                 completions_.data() + at,
                 static_cast<std::uint32_t>(std::countr_zero(depth_)),
                 depth_ - 1,
                 place.id};
    }
    words_.copy_from_host(words.data(), count_);
    pairs_.copy_from_host(refs.data(), count_);
  }

  std::uint32_t count_;
  std::uint32_t depth_;
  queue_group_options options_;
  buffer<queue_words> words_;
  buffer<std::uint32_t> marks_;
  buffer<std::uint64_t> channels_;
  buffer<std::uint64_t> completions_;
  buffer<queue_pair_ref> pairs_;
  pinned_buffer<group_control> control_;
};

}  // namespace gpufs::nvme
