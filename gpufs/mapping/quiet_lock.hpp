// A lock that no signal handler of its thread interrupts.
#pragma once

#include <initializer_list>
#include <mutex>

#include <pthread.h>
#include <signal.h>

namespace gpufs::shared {

namespace detail {
inline constinit thread_local unsigned quiet_depth = 0, declared_depth = 0;
/// Signals are blocked by this thread's outermost no_signals. A handler sees false: it runs only
/// while they are not.
inline constinit thread_local bool blocks_signals = false;

/// The thread gets no signals any more, but for those of its own faults. What the program has
/// blocked stays so. But a fault that is blocked ends the process, and the library may touch
/// objects: these two come through. Returns what was blocked before.
inline ::sigset_t block_signals() {
  ::sigset_t others, touches, before;
  ::sigfillset(&others);
  // A thread made meanwhile inherits these. One that is stopped by its own fault would be ended.
  for (int const own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT})
    ::sigdelset(&others, own);
  ::pthread_sigmask(SIG_BLOCK, &others, &before);
  if (::sigismember(&before, SIGSEGV) == 0 && ::sigismember(&before, SIGBUS) == 0) return before;
  ::sigemptyset(&touches);
  for (int const touch : {SIGSEGV, SIGBUS}) ::sigaddset(&touches, touch);
  ::pthread_sigmask(SIG_UNBLOCK, &touches, nullptr);
  return before;
}
}  // namespace detail

/// Whether this thread makes a call of the library that lets no signal in. Copies and launches that
/// it makes meanwhile are the library's own, also where the linker leads them to wrappers.
inline bool is_in_library() { return detail::quiet_depth != 0; }

/// Whether launches of this thread are the library's own, or what they use is declared.
inline bool is_declared() { return is_in_library() || detail::declared_depth != 0; }

/// While it lives, the thread gets no signals, but for those of its own faults. A handler of the
/// program might touch shared memory, and then wait for the service thread. Within another one it
/// makes no system call.
class no_signals {
 public:
  no_signals() : no_signals(detail::quiet_depth) {}
  ~no_signals() {
    --depth_;
    unblock();
  }
  no_signals(no_signals const&) = delete;
  no_signals& operator=(no_signals const&) = delete;

 protected:
  explicit no_signals(unsigned& depth) : depth_(depth) {
    block();
    ++depth_;
  }
  void block() {
    if (!is_outermost_) return;
    before_ = detail::block_signals();
    detail::blocks_signals = true;
  }
  void unblock() {
    if (!is_outermost_) return;
    detail::blocks_signals = false;
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }

 private:
  unsigned& depth_;
  bool const is_outermost_ = !detail::blocks_signals;
  ::sigset_t before_;
};

/// While it lives, the thread gets no signals, and its launches are declared. It runs code of the
/// program: copies and I/O are not the library's.
class declared_launches : private no_signals {
 public:
  declared_launches() : no_signals(detail::declared_depth) {}
};

/// The mutex is given back before the signals are let through.
class quiet_lock : private no_signals {
 public:
  explicit quiet_lock(std::mutex& m) : mutex_(m) { mutex_.lock(); }
  ~quiet_lock() { mutex_.unlock(); }

  /// Calls work() without the mutex. Signals stay blocked. Throws what it throws.
  template <class Work>
  void beside(Work const& work) {
    unlocked const meanwhile{*this};
    work();
  }

  /// While it lives, without() lets no signals in either: the thread has what a handler's touch
  /// would wait for.
  class closed {
   public:
    explicit closed(quiet_lock& lock) : of_(lock) { of_.is_closed_ = true; }
    ~closed() { of_.is_closed_ = false; }
    closed(closed const&) = delete;
    closed& operator=(closed const&) = delete;

   private:
    quiet_lock& of_;
  };

  /// Calls wait() without the mutex, and with signals. Throws what it throws.
  template <class Wait>
  void without(Wait const& wait) {
    if (is_closed_) return beside(wait);
    unlocked const meanwhile{*this};
    struct signals_let_in {
      quiet_lock& of;
      explicit signals_let_in(quiet_lock& lock) : of(lock) { of.unblock(); }
      ~signals_let_in() { of.block(); }
    } const open{*this};
    wait();
  }

 private:
  /// While it lives, others may have the mutex.
  struct unlocked {
    quiet_lock& of;
    explicit unlocked(quiet_lock& lock) : of(lock) { of.mutex_.unlock(); }
    ~unlocked() { of.mutex_.lock(); }
  };

  std::mutex& mutex_;
  bool is_closed_ = false;
};

}  // namespace gpufs::shared
