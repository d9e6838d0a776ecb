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

namespace {

struct guarded {
  std::atomic<bool> is_taken{false};
  std::atomic<std::uintptr_t> first{0};
  std::atomic<std::uintptr_t> end{0};  // 0: not valid. Stored last, and cleared first
  std::atomic<fault_queue*> queue{nullptr};
  std::atomic<pid_t> process{0};
};

constexpr unsigned most_guards = 64;
std::array<guarded, most_guards> guards;

// Handlers that were there before ours, the last one first. Never freed, as handlers of other
// threads may use them.
struct earlier_handler {
  struct sigaction action;
  earlier_handler const* older;
};
std::atomic<earlier_handler const*> before{nullptr};

// Whether the access was a write. Where the processor does not tell, a fault counts as a read; the
// write then faults once more, on a block that may be read.
bool was_write(void const* context) {
#if defined(__x86_64__)
  auto const& registers = static_cast<ucontext_t const*>(context)->uc_mcontext.gregs;
  return (registers[REG_ERR] & 2) != 0;
#else
  static_cast<void>(context);
  return false;
#endif
}

// The access faults again behind the handler, and ends the process where it stands.
void set_standard_handler() {
  struct sigaction standard {};
  standard.sa_handler = SIG_DFL;
  ::sigaction(SIGSEGV, &standard, nullptr);
}

// As if gpufs had no handler. A handler of the program may leave by a jump.
void pass_on(int number, siginfo_t* info, void* context) {
  struct sigaction const& to = before.load(std::memory_order_acquire)->action;
  if ((to.sa_flags & SA_SIGINFO) != 0) return to.sa_sigaction(number, info, context);
  if (to.sa_handler != SIG_DFL && to.sa_handler != SIG_IGN) return to.sa_handler(number);
  set_standard_handler();
}

void say(char const* text) {
  auto const ignored = ::write(STDERR_FILENO, text, std::strlen(text));
  static_cast<void>(ignored);
}

// The bytes cannot be had. The thread gets SIGBUS, as for a mapped file that cannot be read.
void raise_bus_error() {
  say("gpufs: bytes of a shared object cannot be fetched, since the device has failed\n");
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
    fault f{address, was_write(context), device_memory::in_kernel()};
    auto const answer = g.queue.load(std::memory_order_relaxed)->post_and_wait(f);
    errno = error;
    if (answer == fault_answer::served) return;
    if (answer == fault_answer::failed) return raise_bus_error();
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

}  // namespace gpufs::shared
