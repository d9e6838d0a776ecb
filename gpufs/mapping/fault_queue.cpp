#include <gpufs/mapping/fault_queue.hpp>
#include <gpufs/mapping/futex.hpp>

#include <time.h>

#include <cstdint>
#include <thread>

#include <sched.h>

namespace gpufs::shared {

bool yields(unsigned& times) noexcept {
  constexpr unsigned most = 200;
  if (times == most) return false;
  ++times;
  ::sched_yield();
  return true;
}

namespace {

std::int64_t nanoseconds() noexcept {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

// With fewer processors the thread that is awaited may need this one.
bool const has_free_processors = std::thread::hardware_concurrency() >= 4;

// Some time in which a thread looks again and again, as waking one takes 20 us and more. It does
// not yield the processor: another program's thread would keep it for milliseconds.
class soon {
 public:
  [[nodiscard]] bool lasts() const noexcept {
    constexpr std::int64_t at_most = 40'000;
    if (!has_free_processors) return false;
    for (int i = 0; i < 4; ++i) pause();
    return nanoseconds() - begin_ < at_most;
  }

 private:
  static void pause() noexcept {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }

  std::int64_t const begin_ = nanoseconds();
};

}  // namespace

void fault_queue::post(fault& f) noexcept {
  f.next = newest_.load(std::memory_order_relaxed);
  // Pairs with take_all(): the thread that takes the fault sees what it says. The queue is only
  // ever taken whole, so an address that comes again does no harm.
  while (!newest_.compare_exchange_weak(f.next, &f, std::memory_order_release,
                                        std::memory_order_relaxed)) {
  }
  ring();
}

fault_answer fault_queue::post_and_wait(fault& f) noexcept {
  post(f);
  for (soon is_soon;;) {
    // Pairs with answer(): behind it are the bytes and the protection that the access needs.
    auto const now = f.answer.load(std::memory_order_acquire);
    if (now != std::uint32_t(fault_answer::waiting)) return fault_answer(now);
    if (!is_soon.lasts()) futex_wait(f.answer, now);
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
  if (f.listener != nullptr) return f.listener->answered(f, with);
  auto* const word = &f.answer;
  word->store(std::uint32_t(with), std::memory_order_release);
  futex_wake(word);
}

void fault_queue::wait(std::uint32_t seen, bool is_soon) noexcept {
  if (is_soon) {
    for (soon time; rings() == seen && time.lasts();) {
    }
  }
  if (rings() == seen) bell_.wait(seen);
}

}  // namespace gpufs::shared
