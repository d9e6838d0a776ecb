// Flushes that a thread of the controller has under way.
#pragma once

#include <gpufs/nvme/format.hpp>

#include <nvme-controller/block_namespace.hpp>

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <mutex>
#include <thread>

namespace gpufs::nvme_controller {

/// A disk may take a minute to make bytes durable. So another thread waits for it, one flush after
/// the other. It is started for the first flush. One thread at a time calls.
class kept_flushes {
 public:
  /// A command that waits for its flush.
  struct command {
    std::uint16_t queue;
    std::uint16_t cid;
  };
  /// Gets each command whose flush has ended, and its status code.
  using receiver = std::function<void(command const&, std::uint16_t)>;

  kept_flushes() = default;
  /// Waits for the flush under way. Commands get no answer.
  ~kept_flushes();
  kept_flushes(kept_flushes const&) = delete;
  kept_flushes& operator=(kept_flushes const&) = delete;

  /// Starts a flush of `blocks`, which outlive it. Returns false if there is no thread: the caller
  /// flushes by itself.
  [[nodiscard]] bool start(block_namespace& blocks, command const& of);

  /// Hands out what has ended. Never waits. Returns whether something has ended. A command for
  /// which `to` throws gets no answer. The others come with the next call.
  bool collect(receiver const& to);
  /// Waits until all flushes have ended, and hands them out.
  void finish(receiver const& to);

  /// Flushes that were started and not handed out.
  [[nodiscard]] std::size_t count() const { return count_; }

 private:
  struct job {
    block_namespace* blocks;
    command of;
    std::uint16_t status = 0;
  };

  void run();

  std::size_t count_ = 0;  // started and not handed out; the caller's own
  bool refused_ = false;   // as count_
  std::mutex mutex_;       // guards what follows
  std::condition_variable changed_;
  std::list<job> waiting_;  // the first one is under way
  std::list<job> ended_;
  bool stops_ = false;
  std::thread thread_;
};

}  // namespace gpufs::nvme_controller
