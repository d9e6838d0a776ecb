// A namespace of a controller as a device of blocks: its queue pairs, driven by the host, and the
// reset of a controller that fails.
#pragma once

#include <gpufs/nvme/format.hpp>
#include <gpufs/nvme/status.hpp>

#include <nvme-host/control_plane.hpp>
#include <nvme-host/controller_link.hpp>
#include <nvme-host/drive_counters.hpp>
#include <nvme-host/io_queue.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <shared_mutex>
#include <string>
#include <utility>
#include <vector>

namespace gpufs::nvme_host {

struct drive_options {
  std::uint32_t nsid = 1;
  std::uint32_t queue_pairs = 1;  ///< fewer if the controller grants fewer
  std::uint32_t depth = 1024;     ///< of a queue; smaller if the controller allows less
  /// Channels of a filesystem whose kernels drive queue pairs of their own; 0: none do.
  std::uint64_t channels = 0;
  /// Of them at least, if the controller grants as many to the host, too.
  std::uint32_t device_queue_pairs = 0;
  memory_source device_memory = {};  ///< of their queues
  /// Longest wait for an admin command.
  std::chrono::milliseconds timeout{5000};
};

/// How long a call waits for a drive.
struct patience {
  std::chrono::milliseconds longest;  ///< for an answer to a command, and for a slot
  /// A controller that owes an answer for so long is reset. One that owes it for `longest` only is
  /// slow, if that is less.
  std::chrono::milliseconds silence;
};

/// Queue pairs of `depth` entries that serve a filesystem with `channels` channels: each has a CID
/// of its own.
[[nodiscard]] constexpr std::uint32_t pairs_for(std::uint64_t channels, std::uint32_t depth) {
  return static_cast<std::uint32_t>((channels + depth - 2) / (depth - 1));
}

/// Commands are sent and awaited between enter() and leave(), by any thread. Meanwhile there is no
/// reset. enter() resets a controller that failed, or owes an answer for too long.
class drive {
 public:
  /// A slot that the caller holds.
  struct ticket {
    io_queue* queue = nullptr;
    std::uint32_t slot = 0;
    nvme::direction to = nvme::direction::read;
    nvme::block_range range{};
    bool flushes = false;
    bool is_given_up = false;  ///< its slot is the queue's again
    unsigned tries = 0;
    io_clock::time_point sent{};  ///< for the first time
  };

  /// Brings the controller up. `name` stands in messages. Throws controller_error,
  /// std::system_error.
  drive(std::unique_ptr<controller_link> link, std::string name, drive_options const& options);
  ~drive();
  drive(drive const&) = delete;
  drive& operator=(drive const&) = delete;

  [[nodiscard]] std::string const& name() const { return name_; }
  [[nodiscard]] std::uint32_t lba_bytes() const { return identity_.lba_bytes; }
  [[nodiscard]] std::uint64_t blocks() const { return identity_.blocks; }
  /// Most bytes of a transfer; whole blocks.
  [[nodiscard]] std::uint32_t piece_bytes() const { return piece_bytes_; }
  [[nodiscard]] controller_identity const& identity() const { return controller_; }
  [[nodiscard]] std::uint32_t nsid() const { return options_.nsid; }

  /// Queue pairs for kernels: enough for all channels, or none. A reset ends them for good.
  [[nodiscard]] std::vector<queue_pair_memory> const& device_pairs() const { return device_pairs_; }
  /// What kept them from being made. Empty: nothing did, or the controller grants too few.
  [[nodiscard]] std::string const& why_no_device_pairs() const { return why_no_device_pairs_; }
  /// Entries of a queue.
  [[nodiscard]] std::uint32_t depth() const {
    return std::min(options_.depth, plane_.most_depth());
  }
  /// The memory that the controller reaches.
  [[nodiscard]] dma_space& memory() { return link_->memory(); }
  /// Kernels use their queue pairs from now on. What the first reset calls, from its thread: before
  /// it stops the controller, and once that has stopped or reaches no queue any more. `needed`:
  /// what look_after_kernels() asks. To be set before the first command.
  void on_reset(
      std::function<void()> before, std::function<void()> stopped,
      std::function<bool()> needed = [] { return false; }) {
    before_reset_ = std::move(before);
    stopped_ = std::move(stopped);
    reset_needed_ = std::move(needed);
  }
  /// Resets the controller if kernels use it, and it has failed or left, or they need a reset. Any
  /// thread calls. Returns whether kernels still use it.
  bool look_after_kernels();

  /// Returns 0, or -EIO if the controller cannot be reset; then leave() is not called. While system
  /// calls of a software controller do not return, the first reset waits for CAP.TO, later ones
  /// not. A command of another call that was given up counts, too, once it was sent `silence` ago.
  [[nodiscard]] int enter(std::chrono::milliseconds silence);
  void leave();
  /// Whether enter() would wait for another thread that resets the controller, maybe for seconds.
  [[nodiscard]] bool is_resetting() const { return resetting_.load(std::memory_order_relaxed); }

  /// What the controller wrote before its last reset comes before what the caller does next. Any
  /// thread calls, at any time.
  void see_stops() const { static_cast<void>(stops_.load(std::memory_order_acquire)); }

  /// Takes a slot, if one is free.
  [[nodiscard]] bool try_slot(ticket& out);
  /// Memory of piece_bytes() bytes.
  [[nodiscard]] static std::byte* piece(ticket const& t) { return t.queue->piece(t.slot); }
  /// Sends a transfer between the piece and the blocks.
  void send(ticket& t, nvme::direction to, nvme::block_range range);
  void send_flush(ticket& t);
  /// Waits for the answer, and sends the command again if that is worth it. Returns 0, or
  ///   -EIO the controller failed | -ETIMEDOUT no answer within patience::longest of the first
  ///   sending | as nvme::error_of()
  /// The slot is the caller's until release(), unless the ticket is given up.
  [[nodiscard]] int wait(ticket& t, patience const& with);
  /// Whether a wait that began at `begin` is over: after `longest`, or sooner if the controller is
  /// to be reset. No wait then keeps others from that for longer than an admin command may take.
  [[nodiscard]] bool is_over(io_clock::time_point begin, std::chrono::milliseconds longest) const;
  void release(ticket const& t) { t.queue->free_slot(t.slot); }

  [[nodiscard]] drive_counters const& counters() const { return counters_; }
  /// Of all queue pairs since the drive was made. Waits for a reset that is under way.
  [[nodiscard]] queue_counts counts() const;

 private:
  void make_queues();
  [[nodiscard]] std::uint32_t share_pairs();
  [[nodiscard]] bool make_device_queues(std::uint32_t granted);
  void send_again(ticket& t);
  [[nodiscard]] bool is_up();
  [[nodiscard]] bool is_broken() const {
    return broken_since_.load(std::memory_order_relaxed) != 0;
  }
  void mark_broken();
  [[nodiscard]] std::optional<io_clock::time_point> oldest_given_up() const;
  [[nodiscard]] int answer(ticket& t, nvme::cqe const& entry, bool& again);
  [[nodiscard]] int no_answer(ticket& t, bool up, std::chrono::milliseconds silence);
  int reset();
  int reset_alone();

  std::unique_ptr<controller_link> const link_;
  std::string const name_;
  drive_options const options_;
  control_plane plane_;
  controller_identity controller_;
  namespace_identity identity_;
  std::uint32_t piece_bytes_ = 0;
  // Held shared from enter() to leave(). Guards plane_, queues_, ended_, and what
  // a reset calls.
  mutable std::shared_mutex resets_;
  std::vector<std::unique_ptr<io_queue>> queues_;
  std::uint32_t host_pairs_ = 0;  // their ids are 1 to this; 0: they have not been made yet
  std::vector<queue_pair_memory> device_pairs_;
  std::string why_no_device_pairs_;
  std::function<void()> before_reset_, stopped_;  // null: kernels do not use it
  std::function<bool()> reset_needed_;            // as stopped_
  queue_counts ended_;                            // of queue pairs before the last reset
  std::atomic<io_clock::rep> broken_since_{0};    // not 0: reset it before the next command
  std::atomic<std::uint64_t> stops_{0};           // resets that have stopped the controller
  std::atomic<bool> lost_{false};  // it does not stop: its memory is leaked, nothing works
  std::atomic<bool> resetting_{false};
  std::atomic<std::uint32_t> turn_{0};
  drive_counters counters_;
};

}  // namespace gpufs::nvme_host
