// Writes beyond the process's file size limit (RLIMIT_FSIZE): an error, and no signal.
#pragma once

#include <time.h>

#include <signal.h>

namespace gpufs::daemon {

/// While it lives, a write beyond the process's file size limit gives EFBIG to this thread. The
/// process gets no SIGXFSZ.
class no_size_signal {
 public:
  no_size_signal() {
    ::sigemptyset(&signal_);
    ::sigaddset(&signal_, SIGXFSZ);
    ::sigset_t pending;
    ::sigpending(&pending);
    foreign_ = ::sigismember(&pending, SIGXFSZ) == 1;
    ::pthread_sigmask(SIG_BLOCK, &signal_, &before_);
  }
  ~no_size_signal() {
    ::timespec const now{};
    if (!foreign_) ::sigtimedwait(&signal_, nullptr, &now);
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  no_size_signal(no_size_signal const&) = delete;
  no_size_signal& operator=(no_size_signal const&) = delete;

 private:
  ::sigset_t signal_, before_;
  bool foreign_;
};

}  // namespace gpufs::daemon
