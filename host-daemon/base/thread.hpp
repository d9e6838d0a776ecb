// The set-up of every daemon thread: its name, its signals, its timer.
#pragma once

#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>

namespace gpufs::daemon {

/// How exactly a thread's rests end.
/// usual  The kernel may lengthen a rest by 50 us.
/// fine   The kernel may lengthen a rest by 1 us. For threads that rest 2 us at a time.
enum class rest_precision { usual, fine };

/// Sets up the calling thread, which calls this first. `name`: at most 15 bytes.
/// Blocks all signals: the program's handlers do not run here and do not interrupt reads.
inline void set_up_thread(std::string const& name,
                          rest_precision rests = rest_precision::usual) noexcept {
  ::pthread_setname_np(::pthread_self(), name.c_str());
  ::sigset_t all;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, nullptr);
  if (rests == rest_precision::fine) ::prctl(PR_SET_TIMERSLACK, 1000ul);
}

/// Starts a thread of the daemon. Throws std::system_error, with `remedy`, if the system gives
/// none.
template <class Body>
std::thread start_thread(char const* remedy, Body body) {
  try {
    return std::thread{std::move(body)};
  } catch (std::system_error const& e) {
    throw std::system_error{e.code(), std::string{"no thread for the daemon: "} + remedy};
  }
}

inline constexpr char lower_host_threads[] = "lower host_threads";

}  // namespace gpufs::daemon
