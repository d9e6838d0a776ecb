#include <apps/common/drain_on_signal.hpp>

#include <csignal>
#include <utility>

#include <pthread.h>

namespace gpufs::apps {

namespace {

sigset_t awaited() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  // In the background of a script SIGINT is ignored, under nohup SIGHUP. They stay so.
  for (int const which : {SIGINT, SIGHUP}) {
    struct sigaction now {};
    if (sigaction(which, nullptr, &now) != 0 || now.sa_handler != SIG_IGN) sigaddset(&set, which);
  }
  return set;
}

}  // namespace

drain_on_signal::drain_on_signal() {
  sigset_t const set = awaited();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  thread_ = std::thread([this] { watch(); });
}

drain_on_signal::~drain_on_signal() {
  ending_.store(true, std::memory_order_relaxed);
  pthread_kill(thread_.native_handle(), SIGTERM);  // only wakes it
  thread_.join();
}

void drain_on_signal::set(std::function<void()> drain) {
  std::lock_guard const lock(mutex_);
  drain_ = std::move(drain);
}

void drain_on_signal::watch() {
  sigset_t const set = awaited();
  int which = 0;
  while (sigwait(&set, &which) != 0) {
  }
  if (ending_.load(std::memory_order_relaxed)) return;
  {
    std::lock_guard const lock(mutex_);
    if (drain_) drain_();
  }
  std::signal(which, SIG_DFL);
  sigset_t one;
  sigemptyset(&one);
  sigaddset(&one, which);
  pthread_sigmask(SIG_UNBLOCK, &one, nullptr);
  std::raise(which);
}

}  // namespace gpufs::apps
