// Accesses that userfaultfd has stopped, on their way to the service thread and back.
#pragma once

#include <gpufs/mapping/fault_queue.hpp>
#include <gpufs/mapping/guarded_range.hpp>

#include <cstdint>
#include <mutex>
#include <set>
#include <thread>
#include <tuple>

#include <sys/types.h>

namespace gpufs::shared {

/// A thread that takes them one by one. What the range allows goes on at once. Others go to the
/// queue, as faults that a signal handler posts. Answers come back here: the thread that waits
/// tries again, or its page is given up, so that it gets SIGSEGV. The guard passes that on. If the
/// system stops telling of them, the range goes on with signals.
class touch_reader final : public fault_listener {
 public:
  /// The range has user faults. Throws std::system_error: no thread.
  touch_reader(guarded_range& range, fault_queue& queue);
  /// Faults that it has posted are answered before it goes.
  ~touch_reader() { stop(); }
  touch_reader(touch_reader const&) = delete;
  touch_reader& operator=(touch_reader const&) = delete;

  /// No more are posted.
  void stop() noexcept;

  void answered(fault& f, fault_answer with) noexcept override;

 private:
  void read_touches();
  void post(stopped_access const& touch);

  guarded_range& range_;
  fault_queue& queue_;
  std::mutex mutex_;
  /// Faults that have no answer yet: page, whether it is written, and by a kernel, thread. Needs
  /// the mutex. One is enough: a system call that a signal interrupts tells again and again.
  /// Threads may get different answers, as one of them ends the process.
  std::set<std::tuple<std::uintptr_t, bool, bool, pid_t>> posted_;
  std::thread thread_;  // last, since it uses the others
};

}  // namespace gpufs::shared
