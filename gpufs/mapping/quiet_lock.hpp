// A lock that no signal handler of its thread interrupts.
#pragma once

#include <mutex>

#include <pthread.h>
#include <signal.h>

namespace gpufs::shared {

/// While it lives, the thread gets no signals. A handler of the program might touch shared memory,
/// and then wait for the service thread.
class no_signals {
 public:
  no_signals() {
    ::sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~no_signals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  no_signals(no_signals const&) = delete;
  no_signals& operator=(no_signals const&) = delete;

 private:
  ::sigset_t before_;
};

/// The mutex is given back before the signals are let through.
struct quiet_lock : private no_signals, std::unique_lock<std::mutex> {
  explicit quiet_lock(std::mutex& m) : std::unique_lock<std::mutex>(m) {}
};

}  // namespace gpufs::shared
