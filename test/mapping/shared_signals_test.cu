// Handlers of the program's signals touch objects while their thread writes these back, spills them
// or moves them.
#include <gpufs/config.hpp>
#include <gpufs/mapping.hpp>

#include <test/mapping/budgets.hpp>
#include <test/mapping/kernels.hpp>
#include <test/mapping/named_file.hpp>
#include <test/support/files.hpp>
#include <test/support/settings.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

using namespace gpufs;
using namespace gpufs::test;

namespace {

using words = std::vector<std::uint32_t>;
constexpr std::uint64_t kibi = 1 << 10, mebi = 1 << 20, chunk = 2 * mebi;

/// Called by the library's threads before the system calls below.
std::function<void()> on_sync, on_read, on_write;
std::function<void()> on_signal;
std::atomic<bool> has_synced{false};

}  // namespace

extern "C" int fdatasync(int fd) {
  if (on_sync) on_sync();
  int const result = int(::syscall(SYS_fdatasync, fd));
  has_synced = true;
  return result;
}
extern "C" ssize_t pread(int fd, void* to, std::size_t bytes, off_t offset) {
  if (on_read) on_read();
  return ::syscall(SYS_pread64, fd, to, bytes, offset);
}
extern "C" ssize_t pwritev(int fd, iovec const* parts, int count, off_t offset) {
  if (on_write) on_write();
  return ::syscall(SYS_pwritev, fd, parts, count, offset, 0);
}

namespace {

/// SIGUSR1 has a handler that calls `what`. send() has it called by the thread that made this, as
/// soon as that lets it, the first time only.
class handler {
 public:
  explicit handler(std::function<void()> what) {
    on_signal = [this, what = std::move(what)] {
      what();
      was_called_ = true;
    };
    struct sigaction mine {};
    mine.sa_handler = [](int) { on_signal(); };
    ::sigemptyset(&mine.sa_mask);
    ::sigaction(SIGUSR1, &mine, &before_);
  }
  ~handler() {
    on_sync = on_read = on_write = nullptr;
    ::sigaction(SIGUSR1, &before_, nullptr);
  }
  handler(handler const&) = delete;
  handler& operator=(handler const&) = delete;

  void send() {
    if (!was_sent_.exchange(true)) ::pthread_kill(thread_, SIGUSR1);
  }
  [[nodiscard]] bool was_called() const { return was_called_; }

 private:
  pthread_t thread_ = ::pthread_self();
  std::atomic<bool> was_sent_{false}, was_called_{false};
  struct sigaction before_ {};
};

}  // namespace

TEST_CASE("shared signals: a handler stores to an object that its thread syncs") {
  if (thread_sanitizer) return;  // it calls handlers with all signals blocked
  for (bool const on_disk : {false, true}) {
    CAPTURE(on_disk);
    words content(64 * kibi, 1);
    named_file const file(content);
    shared_memory memory;
    mapping m = memory.map(file.path(), {.access = access::read_write, .block = 64 * kibi});
    auto* const all = m.as<std::uint32_t>();
    all[0] = all[20 * kibi] = content[0] = content[20 * kibi] = 7;
    handler h([&] { all[20 * kibi] = 8; });
    (on_disk ? on_sync : on_write) = [&] { h.send(); };
    CHECK(m.sync() == 0);
    CHECK(h.was_called());
    CHECK(m.sync() == 0);
    content[20 * kibi] = 8;
    CHECK(file.content() == content);
  }
}

TEST_CASE("shared signals: a handler reads bytes that its thread spills") {
  if (thread_sanitizer) return;
  scratch_folder const folder;
  auto config = tight(1, 4 * chunk);
  config.spill_dir = folder.path();
  shared_memory memory(config);
  mapping m = memory.allocate(10 * chunk);
  auto const* const all = m.as<std::uint32_t>();
  std::uint32_t seen = 0;
  handler h([&] { seen = all[5]; });
  on_sync = [&] { h.send(); };  // of the first chunk, which is the coldest
  CHECK(memory.set(m.data(), 3, m.size()) == 0);
  CHECK(h.was_called());
  CHECK(seen == 0x03030303);
  CHECK(m.stats().spill_bytes != 0);
}

TEST_CASE("shared signals: a handler reads bytes that its thread brings to the host") {
  if (thread_sanitizer) return;
  named_file const file(words(chunk / 4, 7));
  shared_memory memory(tight(1, 2 * chunk));
  mapping m = memory.map(file.path(), {.access = access::read_write});
  auto* const all = m.as<std::uint32_t>();
  std::uint32_t seen = 0;
  handler h([&] { seen = all[5]; });
  on_read = [&] { h.send(); };
  shared_call call;
  call.reads_writes(m);
  launch(call, add_to_all, dim3(1), dim3(64), all, chunk / 4, 1u);
  CHECK(h.was_called());
  memory.synchronize();
  CHECK((seen == 7 || seen == 8));
  CHECK(all[5] == 8);
}

TEST_CASE("shared signals: a handler reads bytes of an object that its thread remaps") {
  if (thread_sanitizer) return;
  constexpr std::uint64_t piece = 4 * mebi;
  named_file const file(words(2 * piece / 4, 7));
  mapping_config config;
  config.fill_threads = 1;
  shared_memory memory(config);
  mapping m = memory.map(file.path(), {.access = access::read_write, .eager = false});
  auto const* const all = m.as<std::uint32_t>();
  std::uint32_t seen = 0;
  handler h([&] { seen = all[piece / 4]; });
  std::atomic<bool> reads{false};
  has_synced = false;
  on_read = [&] {
    reads = true;
    while (!has_synced) ::sched_yield();
    for (int i = 0; i < 10'000; ++i) ::sched_yield();  // remap() waits by now, most probably
    h.send();
  };
  std::thread other([&] { CHECK(m.acquire(0, piece, access::read) == 0); });
  while (!reads) ::sched_yield();
  int const error = m.remap(access::read);
  CHECK((error == 0 || error == -EBUSY));
  other.join();
  CHECK(h.was_called());
  CHECK(seen == 7);
}

TEST_CASE(
    "shared signals: a signal that the program has blocked stays so in calls of the library") {
  if (thread_sanitizer) return;
  static std::atomic<int> caught{0};
  caught = 0;
  struct sigaction mine {
  }, before{};
  mine.sa_handler = [](int) { ++caught; };
  ::sigaction(SIGABRT, &mine, &before);
  sigset_t aborts, mask;
  ::sigemptyset(&aborts);
  ::sigaddset(&aborts, SIGABRT);
  ::pthread_sigmask(SIG_BLOCK, &aborts, &mask);
  CHECK(::raise(SIGABRT) == 0);
  named_file const file(words(chunk / 4, 7));
  shared_memory memory;
  mapping m = memory.map(file.path(), {.access = access::read_write});
  m.as<std::uint32_t>()[5] = 8;
  CHECK(m.sync() == 0);
  CHECK(caught == 0);
  ::pthread_sigmask(SIG_SETMASK, &mask, nullptr);
  CHECK(caught == 1);
  ::sigaction(SIGABRT, &before, nullptr);
}
