#include <gpufs/device.hpp>
#include <gpufs/device/shared_range.hpp>
#include <gpufs/mapping/guard.hpp>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <string>

#include <signal.h>
#include <ucontext.h>
#include <unistd.h>

namespace gpufs::shared {

void say(char const* text) noexcept {
  auto const ignored = ::write(STDERR_FILENO, text, std::strlen(text));
  static_cast<void>(ignored);
}

namespace {

struct guarded {
  std::atomic<bool> is_taken{false};
  std::atomic<std::uintptr_t> first{0};
  std::atomic<std::uintptr_t> end{0};  // 0: not valid. Stored last, and cleared first
  std::atomic<fault_queue*> queue{nullptr};
  std::atomic<pid_t> process{0};
};

constexpr unsigned most_guards = 64;
constinit std::array<guarded, most_guards> guards;
// The first so many have been used.
constinit std::atomic<unsigned> guards_used{0};

// Handlers that were there before ours, the last one first. Never freed, as handlers of other
// threads may use them.
struct earlier_handler {
  struct sigaction action;
  earlier_handler const* older;
};
std::atomic<earlier_handler const*> before{nullptr};

touch_kind kind_of(ucontext_t const& context) {
#if defined(__x86_64__)
  return (context.uc_mcontext.gregs[REG_ERR] & 2) != 0 ? touch_kind::write : touch_kind::read;
#else
  static_cast<void>(context);
  return touch_kind::unknown;
#endif
}

// The access faults again behind the handler, and ends the process where it stands.
void set_standard_handler() {
  struct sigaction standard {};
  standard.sa_handler = SIG_DFL;
  ::sigaction(SIGSEGV, &standard, nullptr);
}

// The handler to pass on to. One that the program has set behind ours may lead back to ours, with
// the same signal. Then it is the one before that. uc_link tells: the kernel clears it for each
// signal, and ignores it when the handler returns.
earlier_handler const* next_handler(ucontext_t& context) {
  auto const* const newest = before.load(std::memory_order_acquire);
  auto const* last = reinterpret_cast<earlier_handler const*>(context.uc_link);
  for (auto const* known = newest; known != nullptr; known = known->older) {
    if (known == last) return known->older;
  }
  return newest;
}

// As if gpufs had no handler. A handler of the program may leave by a jump.
void pass_on(int number, siginfo_t* info, void* context) {
  auto& state = *static_cast<ucontext_t*>(context);
  auto const* const to = next_handler(state);
  if (to != nullptr && (to->action.sa_flags & SA_RESETHAND) != 0) set_standard_handler();
  state.uc_link = reinterpret_cast<ucontext_t*>(const_cast<earlier_handler*>(to));
  if (to != nullptr && (to->action.sa_flags & SA_SIGINFO) != 0)
    return to->action.sa_sigaction(number, info, context);
  bool const is_ignored = to != nullptr && to->action.sa_handler == SIG_IGN;
  if (to != nullptr && !is_ignored && to->action.sa_handler != SIG_DFL)
    return to->action.sa_handler(number);
  bool const was_sent = info->si_code <= 0;
  if (was_sent && is_ignored) return;
  set_standard_handler();
  if (was_sent) ::raise(number);  // it does not come again by itself
}

// The bytes cannot be had. The thread gets SIGBUS, as for a mapped file that cannot be read.
void raise_bus_error() {
  say("gpufs: bytes of a shared object cannot be had: the device or the object's file has "
      "failed\n");
  ::raise(SIGBUS);
  set_standard_handler();  // a SIGBUS that was ignored does not help the access
}

void on_fault(int number, siginfo_t* info, void* context) {
  int const error = errno;
  auto const address = reinterpret_cast<std::uintptr_t>(info->si_addr);
  for (auto& g : guards) {
    if (info->si_code <= 0) break;  // sent by a program, not by an access
    // Pairs with the release in guard().
    auto const end = g.end.load(std::memory_order_acquire);
    if (address >= end || address < g.first.load(std::memory_order_relaxed)) continue;
    if (g.process.load(std::memory_order_relaxed) != ::getpid()) {
      say("gpufs: shared objects cannot be used in a child of fork()\n");
      break;
    }
    fault f{address, kind_of(*static_cast<ucontext_t*>(context)), device_memory::in_kernel(),
            ::gettid()};
    auto const answer = g.queue.load(std::memory_order_relaxed)->post_and_wait(f);
    errno = error;
    if (answer == fault_answer::served) return;
    if (answer == fault_answer::failed) return raise_bus_error();
    if (answer == fault_answer::refused)
      device_memory::fail_kernel(
          "it stored to a shared object that is mapped for reading (guard_read_only); map it with "
          "access read_write");
    if (f.in_kernel) say("gpufs: a kernel used a shared object against its call's declaration\n");
    break;
  }
  pass_on(number, info, context);
  errno = error;
}

// Also if the program has set another handler since the last guard.
void install() {
  static std::mutex mutex;
  std::lock_guard const lock(mutex);
  struct sigaction current {};
  struct sigaction ours {};
  ours.sa_sigaction = on_fault;
  ours.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
  ::sigemptyset(&ours.sa_mask);
  bool is_done = ::sigaction(SIGSEGV, nullptr, &current) == 0;
  if (is_done && (current.sa_flags & SA_SIGINFO) != 0 && current.sa_sigaction == on_fault) return;
  if (is_done) {
    // Pairs with pass_on(). A handler that stays is kept once.
    auto const* const known = before.load(std::memory_order_relaxed);
    if (known == nullptr || known->action.sa_sigaction != current.sa_sigaction)
      before.store(new earlier_handler{current, known}, std::memory_order_release);
    is_done = ::sigaction(SIGSEGV, &ours, nullptr) == 0;
  }
  if (!is_done)
    throw device_error(std::string("shared memory: sigaction(SIGSEGV): ") + std::strerror(errno));
}

}  // namespace

guard::guard(void const* first, std::uint64_t bytes, fault_queue& queue) : number_(0) {
  install();
  while (guards[number_].is_taken.exchange(true, std::memory_order_acquire)) {
    if (++number_ == most_guards)
      throw device_error("shared memory: 64 address spaces exist; share one of them");
  }
  // Before the range is known to anybody.
  auto used = guards_used.load(std::memory_order_relaxed);
  while (used <= number_ && !guards_used.compare_exchange_weak(used, number_ + 1)) {
  }
  auto& g = guards[number_];
  auto const from = reinterpret_cast<std::uintptr_t>(first);
  g.queue.store(&queue, std::memory_order_relaxed);
  g.process.store(::getpid(), std::memory_order_relaxed);
  g.first.store(from, std::memory_order_relaxed);
  g.end.store(from + bytes, std::memory_order_release);
}

guard::~guard() {
  guards[number_].end.store(0, std::memory_order_relaxed);
  guards[number_].is_taken.store(false, std::memory_order_release);
}

bool is_guarded(void const* first, std::uint64_t bytes) noexcept {
  auto const begin = reinterpret_cast<std::uintptr_t>(first);
  auto const used = guards_used.load(std::memory_order_relaxed);
  for (unsigned i = 0; i < used; ++i) {
    // Pairs with the release in guard().
    auto const end = guards[i].end.load(std::memory_order_acquire);
    if (begin >= end) continue;
    auto const from = guards[i].first.load(std::memory_order_relaxed);
    if (begin >= from || bytes > from - begin) return true;
  }
  return false;
}

}  // namespace gpufs::shared
