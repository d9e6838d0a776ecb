// The queues that one thread of a controller serves.
#pragma once

#include <gpufs/nvme/format.hpp>

#include <nvme-controller/counters.hpp>
#include <nvme-controller/faults.hpp>
#include <nvme-controller/registers.hpp>

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

namespace gpufs::nvme_controller {

/// What a command came to. `answers`: false for commands that the controller keeps.
struct outcome {
  bool answers = true;
  std::uint16_t word = 0;  ///< status code, and do_not_retry
  std::uint32_t specific = 0;
  /// The answer is not posted before.
  std::chrono::steady_clock::time_point due{};
};

/// An outcome for a status code. Errors would come again.
inline outcome outcome_of(std::uint16_t code) {
  return {.word = static_cast<std::uint16_t>(
              code == nvme::status::success ? code : code | nvme::status::do_not_retry)};
}

/// Where a queue lies and how many entries it has.
struct queue_place {
  std::uint16_t id;
  std::uint32_t entries;
  std::byte* memory;
};

/// Completion queues, and the submission queues that use them. One thread at a time calls.
class queue_set {
 public:
  /// Carries out a command of a submission queue.
  using executor = std::function<outcome(std::uint16_t, nvme::sqe const&)>;

  queue_set(register_view registers, fault_plan& faults, controller_counters& counters,
            executor execute)
      : registers_{registers}, faults_{faults}, counters_{counters}, execute_{std::move(execute)} {}

  void add_cq(queue_place const& place);
  /// `cq` is in this set.
  void add_sq(queue_place const& place, std::uint16_t cq);
  [[nodiscard]] bool has_cq(std::uint16_t id) const { return find_cq(id) != nullptr; }
  /// Whether a submission queue uses the completion queue.
  [[nodiscard]] bool in_use(std::uint16_t cq) const;
  void remove_cq(std::uint16_t id);
  /// Commands of the queue that are not answered yet end with sq_deleted. False: there is no such
  /// queue.
  bool remove_sq(std::uint16_t id);
  /// Drops all queues, and commands without an answer.
  void clear();
  /// Drops the queues whose entries lie in the range, and those that use them.
  void drop_queues_in(std::byte const* memory, std::uint64_t bytes);

  /// Takes commands that have come, and posts completions. Returns whether there were any.
  bool pass();
  /// Posts the completion of a command that was kept.
  void answer(std::uint16_t sq, std::uint16_t cid, outcome const& result);

 private:
  struct finished {
    std::uint16_t sq;
    std::uint16_t cid;
    outcome result;
  };
  struct completion_queue {
    queue_place place;
    std::uint32_t tail = 0;
    std::uint32_t phase = 1;
    std::optional<std::uint32_t> bad_head{};  // value of the doorbell that was counted
    std::deque<finished> ready;               // executed, not posted
  };
  struct submission_queue {
    queue_place place;
    completion_queue* cq;
    std::uint32_t head = 0;
    std::optional<std::uint32_t> missed{};  // value of the doorbell that was lost, or is bad
  };

  [[nodiscard]] completion_queue* find_cq(std::uint16_t id) const;
  [[nodiscard]] submission_queue* find_sq(std::uint16_t id) const;
  bool take(submission_queue& queue);
  void carry_out(submission_queue& queue, nvme::sqe const& entry);
  [[nodiscard]] outcome execute(submission_queue const& queue, nvme::sqe const& entry) const;
  bool post(completion_queue& queue, bool all);
  void post_one(completion_queue& queue, finished const& done);
  [[nodiscard]] static std::size_t count_due(completion_queue const& queue);
  [[nodiscard]] std::uint32_t room(completion_queue& queue);

  register_view registers_;
  fault_plan& faults_;
  controller_counters& counters_;
  executor execute_;
  std::vector<std::unique_ptr<completion_queue>> cqs_;
  std::vector<std::unique_ptr<submission_queue>> sqs_;
};

/// Distance of doorbells: a cache line each. CAP.DSTRD.
inline constexpr std::uint32_t stride_log2 = 5;
inline constexpr std::uint32_t stride = 4u << stride_log2;

}  // namespace gpufs::nvme_controller
