// A thread that uses shared memory in the middle of what another one does.
#pragma once

#include <test/support/settings.hpp>

#include <atomic>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <utility>

#include <sched.h>
#include <sys/types.h>
#include <unistd.h>

namespace gpufs::test {

/// Calls `work` once it is told to. It ends with the scope.
class beside_thread {
 public:
  explicit beside_thread(std::function<void()> work)
      : work_(std::move(work)), thread_([this] { run(); }) {
    wait_until([this] { return number_ != 0; }, "a thread begins");
  }
  ~beside_thread() {
    may_begin_ = true;
    thread_.join();
  }
  beside_thread(beside_thread const&) = delete;
  beside_thread& operator=(beside_thread const&) = delete;

  /// Lets it begin. Returns when it has done its work, or sleeps, as it waits for others.
  void go_as_far_as_it_can() {
    may_begin_ = true;
    wait_until([this] { return is_done_ || (has_begun_ && !runs()); }, "a thread goes on");
  }
  [[nodiscard]] bool is_done() const { return is_done_; }

 private:
  void run() {
    number_ = ::gettid();
    while (!may_begin_) ::sched_yield();
    has_begun_ = true;
    work_();
    is_done_ = true;
  }
  /// proc(5): the state stands behind the name, which is in brackets.
  [[nodiscard]] bool runs() const {
    std::ifstream file("/proc/self/task/" + std::to_string(number_) + "/stat");
    std::string text;
    std::getline(file, text);
    auto const end = text.rfind(')');
    return end == std::string::npos || text.compare(end, 3, ") R") == 0;
  }

  std::function<void()> work_;
  std::atomic<pid_t> number_{0};
  std::atomic<bool> may_begin_{false}, has_begun_{false}, is_done_{false};
  std::thread thread_;  // last, since it uses all of the above
};

}  // namespace gpufs::test
