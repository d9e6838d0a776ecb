// A thread of the controller that serves I/O queues.
#pragma once

#include <nvme-controller/io_commands.hpp>
#include <nvme-controller/kept_reads.hpp>
#include <nvme-controller/queue_set.hpp>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

namespace gpufs::nvme_controller {

/// Runs passes over its queues until it is destroyed.
class io_thread {
 public:
  /// Gives the outcome of a read that was kept.
  using ender = std::function<outcome(kept_reads::command const&, bool complete)>;

  /// `tools` are those of the queues' commands. Throws std::system_error if there is no thread.
  io_thread(std::string const& name, queue_set queues, thread_tools tools, ender end);
  ~io_thread();
  io_thread(io_thread const&) = delete;
  io_thread& operator=(io_thread const&) = delete;

  /// Calls f(queues) between two passes, with no read and no flush under way. One other thread
  /// calls, the controller's.
  template <class F>
  auto between_passes(F const& f) {
    wanted_.store(true, std::memory_order_relaxed);
    std::unique_lock lock{mutex_};
    wanted_.store(false, std::memory_order_relaxed);
    finish_kept();
    if constexpr (std::is_void_v<decltype(f(queues_))>) {
      f(queues_);
      lock.unlock();
      changed_.notify_one();
    } else {
      auto const result = f(queues_);
      lock.unlock();
      changed_.notify_one();
      return result;
    }
  }

 private:
  void run(std::string const& name);
  void finish_kept();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::atomic<bool> wanted_{false};  // the other thread waits for the mutex
  bool stops_ = false;
  queue_set queues_;
  thread_tools const tools_;
  kept_reads::receiver const answers_;  // to queues_
  kept_flushes::receiver const flushed_;
  std::thread thread_;
};

}  // namespace gpufs::nvme_controller
