#include <gpufs/mapping/fault_queue.hpp>

#include <time.h>

#include <climits>

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace gpufs::shared {

void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t seen) noexcept {
  ::syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, seen, nullptr, nullptr, 0);
}

void futex_wait_shortly(std::atomic<std::uint32_t>& word, std::uint32_t seen) noexcept {
  constexpr timespec at_most{.tv_sec = 0, .tv_nsec = 50'000};
  ::syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, seen, &at_most, nullptr, 0);
}

bool yields(unsigned& times) noexcept {
  constexpr unsigned most = 200;
  if (times == most) return false;
  ++times;
  ::sched_yield();
  return true;
}

void futex_wake(std::atomic<std::uint32_t>* word) noexcept {
  ::syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

fault_answer fault_queue::post_and_wait(fault& f) noexcept {
  f.next = newest_.load(std::memory_order_relaxed);
  // Pairs with take_all(): who takes the fault sees what it says. The queue is only ever taken
  // whole, so an address that comes again does no harm.
  while (!newest_.compare_exchange_weak(f.next, &f, std::memory_order_release,
                                        std::memory_order_relaxed)) {
  }
  ring();
  for (;;) {
    // Pairs with answer(): behind it are the bytes and the protection that the access needs.
    auto const now = f.answer.load(std::memory_order_acquire);
    if (now != std::uint32_t(fault_answer::waiting)) return fault_answer(now);
    futex_wait(f.answer, now);
  }
}

fault* fault_queue::take_all() noexcept {
  fault* newest = newest_.exchange(nullptr, std::memory_order_acquire);
  fault* oldest = nullptr;
  while (newest != nullptr) {
    fault* const next = newest->next;
    newest->next = oldest;
    oldest = newest;
    newest = next;
  }
  return oldest;
}

void fault_queue::answer(fault& f, fault_answer with) noexcept {
  auto* const word = &f.answer;
  word->store(std::uint32_t(with), std::memory_order_release);
  futex_wake(word);
}

void fault_queue::ring() noexcept {
  bell_.fetch_add(1, std::memory_order_release);
  futex_wake(&bell_);
}

void fault_queue::wait(std::uint32_t seen) noexcept { futex_wait(bell_, seen); }
void fault_queue::wait_shortly(std::uint32_t seen) noexcept { futex_wait_shortly(bell_, seen); }

}  // namespace gpufs::shared
