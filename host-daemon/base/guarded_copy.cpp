#include <gpufs/base/mix64.hpp>

#include <host-daemon/base/guarded_copy.hpp>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <mutex>

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>

namespace gpufs::daemon {

namespace {

// A copy under way. Entries belong to threads only during copies. They are no thread-local
// variables, for which the handler might have to allocate memory. Or a shared library with gpufs
// would need memory that is there before it is loaded, and a process has little of that.
struct alignas(64) running_copy {
  std::atomic<pthread_t> thread{0};  // 0: free
  // The other members are the thread's. Whole pages: for broken memory the kernel names the page
  // only.
  std::uintptr_t first = 0;
  std::uintptr_t last = 0;
  sigjmp_buf* end = nullptr;
};

constexpr std::size_t entries = 256;
constinit std::array<running_copy, entries> copies;
constinit thread_local bool is_unblocked = false;

// Visits the entries in a thread's own order, until `found` returns true. Returns that entry, or
// none. A thread claims and finds by the same order. So it finds its own entry first, also in a
// child of fork() where a thread of the parent, of the same name, has left another one.
template <class Found>
running_copy* find_entry(pthread_t self, Found found) noexcept {
  // Names of threads are addresses, and may lie as far apart as many entries.
  auto const start = base::mix64(std::uint64_t(self));
  for (std::size_t i = 0; i < entries; ++i) {
    auto& entry = copies[(start + i) % entries];
    if (found(entry.thread)) return &entry;
  }
  return nullptr;
}

running_copy* claim_entry(pthread_t self) noexcept {
  return find_entry(self, [self](std::atomic<pthread_t>& thread) {
    auto current = thread.load(std::memory_order_relaxed);
    // Acquire: pairs with the release of the thread that had the entry before.
    return current == self ||
           (current == 0 && thread.compare_exchange_strong(current, self, std::memory_order_acquire,
                                                           std::memory_order_relaxed));
  });
}

struct sigaction before;  // written before our handler is set
std::atomic<bool> is_set{false};

void set_standard_handler() {
  struct sigaction standard {};
  standard.sa_handler = SIG_DFL;
  ::sigaction(SIGBUS, &standard, nullptr);
}

// The program's handler, as the kernel would call it. It may leave by a jump, which restores the
// mask that its program wants.
void call_before(int number, siginfo_t* info, void* context) {
  if ((before.sa_flags & SA_RESETHAND) != 0) set_standard_handler();
  ::sigset_t held = before.sa_mask, mask;
  if ((before.sa_flags & SA_NODEFER) == 0) ::sigaddset(&held, number);
  ::pthread_sigmask(SIG_BLOCK, &held, &mask);
  if ((before.sa_flags & SA_SIGINFO) != 0)
    before.sa_sigaction(number, info, context);
  else
    before.sa_handler(number);
  ::pthread_sigmask(SIG_SETMASK, &mask, nullptr);
}

// As if gpufs had no handler.
void pass_on(int number, siginfo_t* info, void* context) {
  bool const is_plain = (before.sa_flags & SA_SIGINFO) == 0;
  bool const was_sent = info->si_code <= 0;
  if (is_plain && before.sa_handler == SIG_IGN && was_sent) return;
  if (!is_plain || (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN))
    return call_before(number, info, context);
  set_standard_handler();         // the access faults again, and ends the process where it stands
  if (was_sent) ::raise(number);  // it does not come again by itself
}

void on_bus_error(int number, siginfo_t* info, void* context) {
  auto const self = ::pthread_self();
  auto const* const copy = find_entry(self, [self](std::atomic<pthread_t> const& thread) {
    return thread.load(std::memory_order_relaxed) == self;
  });
  auto const address = reinterpret_cast<std::uintptr_t>(info->si_addr);
  if (copy == nullptr || info->si_code <= 0 || address < copy->first || address > copy->last)
    return pass_on(number, info, context);
  ::siglongjmp(*copy->end, 1);
}

bool is_ours() noexcept {
  struct sigaction current {};
  return ::sigaction(SIGBUS, nullptr, &current) == 0 && (current.sa_flags & SA_SIGINFO) != 0 &&
         current.sa_sigaction == on_bus_error;
}

void unblock() noexcept {
  ::sigset_t bus;
  ::sigemptyset(&bus);
  ::sigaddset(&bus, SIGBUS);
  ::pthread_sigmask(SIG_UNBLOCK, &bus, nullptr);
  is_unblocked = true;
}

}  // namespace

bool guard_copies() noexcept {
  if (is_set.load(std::memory_order_acquire)) return is_ours();
  static std::mutex mutex;
  std::lock_guard const lock{mutex};
  if (is_set.load(std::memory_order_relaxed)) return is_ours();
  struct sigaction ours {};
  ours.sa_sigaction = on_bus_error;
  // The handler leaves by a jump that restores no mask.
  ours.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
  ::sigemptyset(&ours.sa_mask);
  if (::sigaction(SIGBUS, nullptr, &before) != 0 || ::sigaction(SIGBUS, &ours, nullptr) != 0)
    return false;
  is_set.store(true, std::memory_order_release);
  return true;
}

bool guarded_copy(std::byte* to, std::byte const* from, std::size_t bytes) noexcept {
  // The kernel ends a process that gets SIGBUS for an access while it blocks it.
  if (!is_unblocked) unblock();
  auto* const copy = claim_entry(::pthread_self());
  if (copy == nullptr) return false;
  sigjmp_buf end;
  constexpr std::uintptr_t within_page = 4095;
  copy->first = reinterpret_cast<std::uintptr_t>(from) & ~within_page;
  copy->last = (reinterpret_cast<std::uintptr_t>(from) + bytes - 1) | within_page;
  copy->end = &end;
  bool is_whole = true;
  if (sigsetjmp(end, 0) == 0) {
    // The handler runs on this thread, so no fence but the compiler's is needed.
    std::atomic_signal_fence(std::memory_order_seq_cst);
    std::memcpy(to, from, bytes);
    std::atomic_signal_fence(std::memory_order_seq_cst);
  } else {
    unblock();  // ThreadSanitizer calls handlers with all signals blocked
    is_whole = false;
  }
  copy->thread.store(0, std::memory_order_release);
  return is_whole;
}

}  // namespace gpufs::daemon
