// Copies out of mapped files: bytes that vanish, and handlers of the program.
#include <host-daemon/base/guarded_copy.hpp>

#include <test/daemon/harness.hpp>

#include <doctest/doctest.h>

#include <csetjmp>
#include <cstddef>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace gpufs::daemon;
using namespace gpufs::test;

namespace {

constexpr std::size_t bytes = 1 << 16;

// A mapped file, which can be cut.
struct mapped_file {
  mapped_file() {
    std::string const path = folder / "a";
    write_range(path, 0, bytes);
    fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
    REQUIRE(fd >= 0);
    void* const at = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd, 0);
    REQUIRE(at != MAP_FAILED);
    data = static_cast<std::byte const*>(at);
  }
  ~mapped_file() {
    ::munmap(const_cast<std::byte*>(data), bytes);
    ::close(fd);
  }
  mapped_file(mapped_file const&) = delete;
  mapped_file& operator=(mapped_file const&) = delete;

  void cut(std::size_t size) const { REQUIRE(::ftruncate(fd, ::off_t(size)) == 0); }

  scratch_folder folder;
  int fd = -1;
  std::byte const* data = nullptr;
};

sigjmp_buf behind_access;
volatile sig_atomic_t calls = 0;

void programs_handler(int) {
  calls = calls + 1;
  ::siglongjmp(behind_access, 1);
}

void set(void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_NODEFER;
  REQUIRE(::sigaction(SIGBUS, &action, nullptr) == 0);
}

}  // namespace

// The first cases, as the guard is set once in a process.
TEST_CASE("a handler of the program that asked to be called once ends the process then") {
  int said[2];
  REQUIRE(::pipe(said) == 0);
  static int output = said[1];
  pid_t const child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    struct sigaction once {};
    once.sa_handler = [](int) {
      auto const ignored = ::write(output, "c", 1);
      static_cast<void>(ignored);
    };
    once.sa_flags = int(SA_RESETHAND | SA_NODEFER);
    ::sigaction(SIGBUS, &once, nullptr);
    if (!guard_copies()) ::_exit(1);
    mapped_file const file;
    file.cut(0);
    auto const byte = *static_cast<std::byte const volatile*>(file.data);
    static_cast<void>(byte);
    ::_exit(2);
  }
  ::close(said[1]);
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGBUS);
  char calls_of_it[4];
  CHECK(::read(said[0], calls_of_it, sizeof(calls_of_it)) == 1);
  ::close(said[0]);
}

TEST_CASE("a SIGBUS of the program goes to the program's handler, which was there before") {
  set(programs_handler);
  REQUIRE(guard_copies());
  mapped_file file;
  file.cut(0);
  if (sigsetjmp(behind_access, 1) == 0) {
    auto const byte = *static_cast<std::byte const volatile*>(file.data);
    static_cast<void>(byte);
    FAIL("the access should have raised SIGBUS");
  }
  CHECK(calls == 1);
  if (sigsetjmp(behind_access, 1) == 0) ::raise(SIGBUS);
  CHECK(calls == 2);
}

TEST_CASE("a copy out of a file that was cut fails, and the next one does not suffer") {
  REQUIRE(guard_copies());
  mapped_file file;
  std::vector<std::byte> to(bytes);
  CHECK(guarded_copy(to.data(), file.data, bytes));
  CHECK(wrong_bytes(to.data(), 0, bytes) == 0);
  file.cut(8192);
  for (int i = 0; i < 100; ++i) {
    CHECK_FALSE(guarded_copy(to.data(), file.data, bytes));
    CHECK_FALSE(guarded_copy(to.data(), file.data + 8192, 1));
    CHECK(guarded_copy(to.data(), file.data, 8192));
  }
  CHECK(wrong_bytes(to.data(), 0, 8192) == 0);
}

TEST_CASE("threads that block all signals copy out of a file that was cut") {
  REQUIRE(guard_copies());
  mapped_file file;
  file.cut(4096);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&file] {
      ::sigset_t all;
      ::sigfillset(&all);
      ::pthread_sigmask(SIG_SETMASK, &all, nullptr);
      std::vector<std::byte> to(bytes);
      int failed = 0;
      for (int i = 0; i < 1000; ++i)
        failed += guarded_copy(to.data(), file.data + i % 2 * 4096, 4096) ? 0 : 1;
      CHECK(failed == 500);
    });
  for (auto& t : threads) t.join();
}

TEST_CASE("a handler that the program sets afterwards is left alone") {
  REQUIRE(guard_copies());
  struct sigaction ours {};
  REQUIRE(::sigaction(SIGBUS, nullptr, &ours) == 0);
  set(programs_handler);
  CHECK_FALSE(guard_copies());
  struct sigaction current {};
  REQUIRE(::sigaction(SIGBUS, nullptr, &current) == 0);
  bool const is_theirs = current.sa_handler == programs_handler;
  CHECK(is_theirs);
  REQUIRE(::sigaction(SIGBUS, &ours, nullptr) == 0);
  CHECK(guard_copies());
}
