// Accesses that userfaultfd has stopped, on their way to the service thread and back.
#pragma once

#include <gpufs/mapping/fault_queue.hpp>
#include <gpufs/mapping/guarded_range.hpp>

#include <thread>

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

  guarded_range& range_;
  fault_queue& queue_;
  std::thread thread_;  // last, since it uses the others
};

}  // namespace gpufs::shared
