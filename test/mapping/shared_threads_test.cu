// Shared memory with many CPU threads: faults side by side, launches meanwhile, other mappings of
// the process, signals, handlers of the program.
#include <gpufs/mapping.hpp>

#include <test/mapping/kernels.hpp>
#include <test/support/child.hpp>
#include <test/support/seed.hpp>
#include <test/support/settings.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <barrier>
#include <cerrno>
#include <chrono>
#include <csetjmp>
#include <cstdint>
#include <thread>
#include <vector>

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace gpufs;
using namespace gpufs::test;

namespace {

constexpr std::uint64_t block = 4 << 10;

mapping_config small_blocks(std::uint32_t rolling) {
  mapping_config c;
  c.coherence_block = block;
  c.rolling_size = rolling;
  return c;
}

}  // namespace

TEST_CASE("shared threads: threads that fault on the same blocks and on neighbours all get on") {
  constexpr unsigned threads = 8;
  unsigned const rounds = scaled(30, 5);
  for (std::uint32_t const rolling : {rolling_automatic, 1u, 3u}) {
    CAPTURE(rolling);
    shared_memory memory(small_blocks(rolling));
    auto const numbers = memory.allocate(16 * block), zeros = memory.allocate(16 * block);
    std::uint64_t const count = numbers.size() / 4;
    auto* const w = numbers.as<std::uint32_t>();
    std::atomic<std::uint64_t> wrong{0};
    std::uint32_t expected_factor = 1, expected_sum = 0;
    for (unsigned round = 0; round < rounds; ++round) {
      std::barrier start(threads);
      std::vector<std::thread> all;
      for (unsigned t = 0; t < threads; ++t) {
        all.emplace_back([&, t] {
          start.arrive_and_wait();
          // Each thread has its own words of every block.
          for (std::uint64_t i = t; i < count; i += threads) {
            wrong +=
                w[i] !=
                (round == 0 ? 0 : static_cast<std::uint32_t>(i) * expected_factor + expected_sum);
            w[i] = static_cast<std::uint32_t>(i) + round;
          }
        });
      }
      for (auto& t : all) t.join();
      launch(mix_words, 2, 32, w, zeros.as<std::uint32_t const>(), 0, count, round);
      memory.synchronize();
      expected_factor = 4;
      expected_sum = round * 4;
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("shared threads: each thread launches on a stream of its own, with objects of its own") {
  constexpr unsigned threads = 4;
  unsigned const rounds = scaled(40, 8);
  shared_memory memory(small_blocks(2));
  std::atomic<std::uint64_t> wrong{0};
  std::vector<std::thread> all;
  for (unsigned t = 0; t < threads; ++t) {
    all.emplace_back([&, t] {
      stream own;
      std::uint64_t const count = 3000 + 500 * t;
      for (unsigned round = 0; round < rounds; ++round) {
        auto const to = memory.allocate(count * 4), from = memory.allocate(count * 4);
        for (std::uint32_t i = 0; i < count; ++i) {
          to.as<std::uint32_t>()[i] = i * t;
          from.as<std::uint32_t>()[i] = i + round;
        }
        {
          shared_call call(&own);
          call.reads(from).reads_writes(to);
          launch(call, mix_words, 2, 32, to.as<std::uint32_t>(), from.as<std::uint32_t const>(), 0,
                 count, t);
        }
        memory.synchronize(own);
        for (std::uint32_t i = 0; i < count; ++i)
          wrong += to.as<std::uint32_t>()[i] != i * t * 3 + i + round + i + t;
      }
    });
  }
  for (auto& t : all) t.join();
  CHECK(wrong == 0);
}

TEST_CASE("shared threads: mappings of other threads never land in the reservation") {
  std::atomic<bool> stops{false};
  std::atomic<std::uint64_t> inside{0};
  std::vector<std::thread> mappers;
  {
    shared_memory memory;
    auto const first = memory.allocate(1);
    auto const from = reinterpret_cast<std::uintptr_t>(first.data());
    for (unsigned t = 0; t < 3; ++t) {
      mappers.emplace_back([&] {
        while (!stops) {
          void* const p = ::mmap(nullptr, 3 << 20, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
          auto const at = reinterpret_cast<std::uintptr_t>(p);
          inside += at >= from && at < from + (1ull << 33);
          ::munmap(p, 3 << 20);
        }
      });
    }
    for (unsigned round = 0; round < scaled(300, 30); ++round) {
      auto const m = memory.allocate(5 << 20);
      m.as<char>()[0] = 1;
    }
    stops = true;
    for (auto& t : mappers) t.join();
  }
  CHECK(inside == 0);
}

namespace {

sigjmp_buf outside;
void leave(int) { ::siglongjmp(outside, 1); }

std::uint32_t* touched_by_handler = nullptr;
void touch(int) { *touched_by_handler += 1; }

}  // namespace

TEST_CASE("shared threads: faults elsewhere go to the program's handler") {
  struct sigaction mine {
  }, old{};
  mine.sa_handler = leave;
  ::sigemptyset(&mine.sa_mask);
  ::sigaction(SIGSEGV, &mine, &old);
  {
    shared_memory memory;
    auto const m = memory.allocate(block);
    m.as<char>()[0] = 1;
    int reached = 0;
    if (::sigsetjmp(outside, 1) == 0) {
      void* const nothing = ::mmap(nullptr, block, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      *static_cast<char volatile*>(nothing) = 1;
    } else {
      reached = 1;
    }
    CHECK(reached == 1);
    // Beside an object, too.
    if (::sigsetjmp(outside, 1) == 0)
      m.as<char volatile>()[64 << 20] = 1;
    else
      reached = 2;
    CHECK(reached == 2);
    m.as<char>()[1] = 1;
  }
  ::sigaction(SIGSEGV, &old, nullptr);
}

namespace {

struct sigaction replaced;
std::atomic<int> chained{0};
void chain(int number, siginfo_t* info, void* context) {
  if (++chained > 5) ::_exit(9);
  replaced.sa_sigaction(number, info, context);
}

}  // namespace

TEST_CASE("shared threads: a handler that calls the one before it does not go round in circles") {
  struct sigaction mine {
  }, old{};
  mine.sa_handler = leave;
  ::sigemptyset(&mine.sa_mask);
  ::sigaction(SIGSEGV, &mine, &old);
  {
    shared_memory const first;
    struct sigaction reporter {};
    reporter.sa_sigaction = chain;
    reporter.sa_flags = SA_SIGINFO;
    ::sigemptyset(&reporter.sa_mask);
    ::sigaction(SIGSEGV, &reporter, &replaced);
    shared_memory memory;
    auto const m = memory.allocate(block);
    m.as<char>()[0] = 1;
    for (static int round = 0; round < 3; ++round) {
      chained = 0;
      if (::sigsetjmp(outside, 1) == 0) m.as<char volatile>()[64 << 20] = 1;
      CHECK(chained == 1);
      m.as<char>()[1] = 1;
    }
  }
  ::sigaction(SIGSEGV, &old, nullptr);
}

TEST_CASE("shared threads: a signal that a program sends itself is no fault") {
  struct sigaction mine {
  }, old{};
  mine.sa_handler = SIG_IGN;
  ::sigemptyset(&mine.sa_mask);
  ::sigaction(SIGSEGV, &mine, &old);
  {
    shared_memory memory(small_blocks(1));
    auto const m = memory.allocate(4 * block);
    ::raise(SIGSEGV);
    for (unsigned n = 0; n < 4; ++n) m.as<char>()[n * block] = 1;
    CHECK(memory.stats().faults_write == 4);
  }
  ::sigaction(SIGSEGV, &old, nullptr);
}

TEST_CASE("shared threads: a handler of the program may use objects, also within a call of ours") {
  // It calls handlers with all signals blocked, so a fault in one ends the process.
  if (thread_sanitizer) return;
  // One block for the handler and one for the thread. With one for both, and signals that come
  // faster than faults are answered, each would take the other's for ever.
  shared_memory memory(small_blocks(2));
  auto const counter = memory.allocate(block), numbers = memory.allocate(64 * block);
  touched_by_handler = counter.as<std::uint32_t>();
  struct sigaction mine {
  }, old{};
  mine.sa_handler = touch;
  ::sigemptyset(&mine.sa_mask);
  ::sigaction(SIGUSR1, &mine, &old);
  std::atomic<bool> stops{false};
  auto const self = ::pthread_self();
  unsigned sent = 0;
  std::thread sender([&] {
    while (!stops) {
      ::pthread_kill(self, SIGUSR1);
      ++sent;
      std::this_thread::yield();
    }
  });
  auto* const w = numbers.as<std::uint32_t>();
  auto const count = numbers.size() / 4;
  wait_until([] { return std::atomic_ref(*touched_by_handler).load() > 0; }, "the first signal");
  for (unsigned round = 0; round < scaled(20, 4); ++round) {
    for (std::uint64_t i = 0; i < count; i += 64) w[i] += 1;
    shared_call call;
    call.reads_writes(numbers);
    launch(call, mix_words, 1, 32, w, w, 0, 1, 0);
    memory.synchronize();
  }
  stops = true;
  sender.join();
  ::sigaction(SIGUSR1, &old, nullptr);
  CHECK(w[64] == scaled(20, 4));
  CHECK(*touched_by_handler > 0);
  CHECK(*touched_by_handler <= sent);
}

TEST_CASE("shared threads: a call in a child of fork() is refused, whatever other threads did") {
  shared_memory memory;
  mapping const m = memory.allocate(4096);
  std::atomic<bool> stops{false};
  std::vector<std::thread> others;
  for (unsigned t = 0; t < 2; ++t)
    others.emplace_back([&] {
      while (!stops) static_cast<void>(memory.stats());  // takes the mutex
    });
  stream on;
  int status = 0;
  for (unsigned round = 0; round < scaled(100, 20) && status == 0; ++round) {
    pid_t const pid = ::fork();
    if (pid == 0) {
      shared_call call(&on);
      int const result = call.reads(m).release();
      call.launched();
      ::_exit(result == -EIO && call.why_refused().empty() ? 0 : 1);
    }
    REQUIRE(pid > 0);
    // A child that hangs lets no signal in but this one.
    auto const most = std::chrono::steady_clock::now() + std::chrono::seconds(scaled(20, 60));
    while (::waitpid(pid, &status, WNOHANG) == 0) {
      if (std::chrono::steady_clock::now() > most) ::kill(pid, SIGKILL);
      std::this_thread::yield();
    }
  }
  stops = true;
  for (auto& t : others) t.join();
  CHECK(status == 0);  // else it has hung, or ended with an error
}
