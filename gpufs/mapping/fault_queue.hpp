// Faults of CPU threads on their way from the signal handler to the service thread, and back.
#pragma once

#include <gpufs/mapping/bell.hpp>

#include <atomic>
#include <cstdint>

#include <sys/types.h>

namespace gpufs::shared {

/// Between two questions to the device: yields the processor the first times. Returns false
/// afterwards, and then the caller sleeps. What is asked for mostly comes soon, or takes long.
[[nodiscard]] bool yields(unsigned& times) noexcept;

/// What a thread tried. Some processors do not tell.
enum class touch_kind { read, write, unknown };

/// What becomes of a fault.
enum class fault_answer : std::uint32_t {
  waiting,
  served,    ///< the access can be tried again
  not_ours,  ///< no object is there
  failed,    ///< the bytes cannot be had
  refused,   ///< a kernel's: it must not store there
};

struct fault;

/// Gets answers to faults whose thread does not wait in post_and_wait().
class fault_listener {
 public:
  /// In the thread that answers. The fault is the listener's from here on.
  virtual void answered(fault& f, fault_answer with) noexcept = 0;

 protected:
  ~fault_listener() = default;
};

/// One fault. It lies on the stack of the thread that faulted, or is its listener's, until it is
/// answered.
struct fault {
  std::uintptr_t address;
  touch_kind kind;
  bool in_kernel;
  pid_t thread;
  fault_listener* listener = nullptr;  ///< null: a thread waits for the answer
  fault* next = nullptr;
  std::atomic<std::uint32_t> answer{std::uint32_t(fault_answer::waiting)};
};

/// Many threads post, in signal handlers: nothing here allocates or locks. One thread takes.
class fault_queue {
 public:
  /// Posts a fault that has a listener.
  void post(fault& f) noexcept;
  /// Posts a fault that has none, and waits for its answer.
  fault_answer post_and_wait(fault& f) noexcept;

  /// All faults posted since the last call, the oldest first; null: none.
  [[nodiscard]] fault* take_all() noexcept;

  /// Lets the thread that posted it go on, or tells the listener. The fault is gone then.
  static void answer(fault& f, fault_answer with) noexcept;

  /// Wakes the thread that waits in wait(). Any thread calls.
  void ring() noexcept { bell_.ring(); }
  [[nodiscard]] std::uint32_t rings() const noexcept { return bell_.rings(); }  ///< as bell's
  /// Waits until somebody has rung since rings() gave `seen`. If `is_soon`, it looks for a while
  /// before it sleeps: waking a thread costs more than the answer to a fault.
  void wait(std::uint32_t seen, bool is_soon) noexcept;
  /// The same for at most 50 us.
  void wait_shortly(std::uint32_t seen) noexcept { bell_.wait_shortly(seen); }

 private:
  std::atomic<fault*> newest_{nullptr};
  bell bell_;
};

}  // namespace gpufs::shared
