// What shared memory promises at the end of a process, beside other threads, and where the program
// holds a lock that a message needs.
#include <gpufs/config.hpp>
#include <gpufs/mapping.hpp>

#include <test/mapping/kernels.hpp>
#include <test/mapping/named_file.hpp>
#include <test/mapping/user_faults.hpp>
#include <test/support/child.hpp>
#include <test/support/files.hpp>
#include <test/support/settings.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace gpufs;
using namespace gpufs::test;

namespace {

constexpr std::uint64_t kibi = 1 << 10, mebi = 1 << 20;

/// Called by the library's threads before the system calls below.
std::function<void()> on_read, on_write;

bool has(std::string const& text, std::string const& part) {
  return text.find(part) != std::string::npos;
}

/// A new file of zeros.
std::string file_of_zeros(std::string const& path, std::uint64_t bytes) {
  std::ofstream const made(path);
  std::filesystem::resize_file(path, bytes);
  return path;
}

void wait_for(std::atomic<bool> const& what) {
  while (!what) ::sched_yield();
}

/// Time for what another thread may do, which is most probably over then.
void give_way() {
  for (int i = 0; i < 10'000; ++i) ::sched_yield();
}

}  // namespace

extern "C" ssize_t pread(int fd, void* to, std::size_t bytes, off_t offset) {
  if (on_read) on_read();
  return ::syscall(SYS_pread64, fd, to, bytes, offset);
}
extern "C" ssize_t pwritev(int fd, iovec const* parts, int count, off_t offset) {
  if (on_write) on_write();
  return ::syscall(SYS_pwritev, fd, parts, count, offset, 0);
}

namespace {

mapping* waits = nullptr;

/// Ends the process while another thread waits for the bytes of `waits`, and with another object
/// changed, that of `path`.
[[noreturn]] void end_while_another_waits(std::string const& path, fault_handling handler) {
  static std::atomic<bool> reads{false}, writes{false};
  mapping_config config;
  config.address_space = 64ull << 30;  // for sanitizers
  config.fault_handler = handler;
  config.fill_threads = 1;
  auto& memory = *new shared_memory(config);
  auto& changed = *new mapping(memory.map(path, {.access = access::read_write}));
  auto const other_path = file_of_zeros(path + ".other", 12 * mebi);
  waits = new mapping(memory.map(
      other_path,
      {.access = access::read_write, .eager = false, .protocol = coherence_protocol::lazy}));
  REQUIRE(changed.data() < waits->data());  // so it is written back first
  changed.as<std::uint32_t>()[5] = 4;
  on_read = [] {
    reads = true;
    wait_for(writes);
  };
  on_write = [] { writes = true; };
  std::thread([] { static_cast<void>(*waits->as<std::uint32_t volatile>()); }).detach();
  wait_for(reads);
  std::exit(0);
}

}  // namespace

TEST_CASE("child: ends with a call that is not launched") {
  if (!is_part("ends with a call that is not launched")) return;
  auto& memory = *new shared_memory;  // never destroyed
  auto& m = *new mapping(memory.map(given_path(), {.access = access::read_write}));
  m.as<std::uint32_t>()[5] = 4;
  auto& call = *new shared_call;
  call.writes(m);
  std::exit(call.release());  // as a program does whose own launch has failed
}

TEST_CASE("shared ends: exit() waits for no call that is released and not launched") {
  named_file const file(std::vector<std::uint32_t>(8 * kibi, 1));
  child c("ends with a call that is not launched", file.path());
  CHECK(c.succeeds());
  CHECK(file.content()[5] == 4);
}

TEST_CASE("child: ends with bytes that its file cannot have") {
  if (!is_part("ends with bytes that its file cannot have")) return;
  auto& memory = *new shared_memory;  // never destroyed
  auto& m = *new mapping(memory.map(given_path(), {.access = access::read_write}));
  ::signal(SIGXFSZ, SIG_IGN);
  rlimit const limit{.rlim_cur = 64 * kibi, .rlim_max = 64 * kibi};
  if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) return;
  m.as<std::uint32_t>()[32 * kibi] = 4;
  std::exit(0);
}

TEST_CASE("shared ends: exit() says what it could not write back") {
  scratch_folder const folder;
  named_file const file(std::vector<std::uint32_t>(64 * kibi, 5));
  std::string const output = folder / "output";
  child c("ends with bytes that its file cannot have", file.path(), {.output_to = output});
  CHECK(c.succeeds());
  CHECK(has(text_of(output), "gpufs: " + file.path() +
                                 ": what was changed is not written back, as the process ends: "
                                 "File too large"));
}

TEST_CASE("child: was told of bytes that its file cannot have and ends") {
  if (!is_part("was told of bytes that its file cannot have and ends")) return;
  auto& memory = *new shared_memory;  // never destroyed
  auto& m = *new mapping(memory.map(given_path(), {.access = access::read_write}));
  auto& behind = *new mapping(memory.map(given_path() + ".short", {.access = access::read_write}));
  ::signal(SIGXFSZ, SIG_IGN);
  rlimit const limit{.rlim_cur = 64 * kibi, .rlim_max = 64 * kibi};
  if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) return;
  m.as<std::uint32_t>()[32 * kibi] = 4;
  REQUIRE(m.sync() == -EFBIG);
  behind.as<std::uint32_t>()[3] = 4;
  std::exit(0);
}

TEST_CASE("shared ends: exit() writes back the other objects after an error that a call returned") {
  scratch_folder const folder;
  named_file const file(std::vector<std::uint32_t>(64 * kibi, 5));
  std::string const output = folder / "output", behind = file.path() + ".short";
  write_bytes(behind, std::vector<std::byte>(4096));
  child c("was told of bytes that its file cannot have and ends", file.path(),
          {.output_to = output});
  CHECK(c.succeeds());
  auto const said = text_of(output);
  CAPTURE(said);
  CHECK(has(said, "gpufs: " + file.path() +
                      ": what was changed is not written back, as the process ends: File too "
                      "large"));
  CHECK(pread_bytes(behind, 12, 1) == std::vector{std::byte{4}});
}

TEST_CASE("child: ends while another thread unmaps") {
  if (!is_part("ends while another thread unmaps")) return;
  auto& memory = *new shared_memory;
  auto& m = *new mapping(memory.map(given_path(), {.access = access::read_write}));
  for (std::uint64_t i = 0; i < m.size() / 4; ++i) m.as<std::uint32_t>()[i] = 7;
  static std::atomic<bool> has_begun{false};
  std::thread([&m] {
    has_begun = true;
    static_cast<void>(m.unmap());
  }).detach();
  wait_for(has_begun);
  std::exit(0);
}

TEST_CASE("shared ends: exit() waits for an unmap() of another thread") {
  std::uint64_t const words = scaled(64, 8) * mebi / 4;
  named_file const file(std::vector<std::uint32_t>(words, 1));
  child c("ends while another thread unmaps", file.path());
  CHECK(c.succeeds());
  CHECK(file.content() == std::vector<std::uint32_t>(words, 7));
}

TEST_CASE("child: ends while another thread waits for bytes") {
  if (!is_part("ends while another thread waits for bytes")) return;
  std::atexit(give_way);  // behind all that the library does: the other thread may go wrong
  end_while_another_waits(given_path(), fault_handling::automatic);
}

TEST_CASE("shared ends: exit() is not disturbed by a thread whose bytes are not read any more") {
  named_file const file(std::vector<std::uint32_t>(8 * kibi, 1));
  child c("ends while another thread waits for bytes", file.path());
  CHECK(c.succeeds());
  CHECK(file.content()[5] == 4);
}

TEST_CASE("child: touches last what another thread waits for") {
  if (!is_part("touches last what another thread waits for")) return;
  ::alarm(60);
  std::atexit([] {  // behind the end of all reads
    ::signal(SIGBUS, SIG_DFL);
    static_cast<void>(*waits->as<std::uint32_t volatile>());
  });
  end_while_another_waits(given_path(), fault_handling::userfault);
}

TEST_CASE("shared ends: a touch behind the end of all reads gets SIGBUS beside another thread's") {
  if (thread_sanitizer || !has_user_faults()) return;
  named_file const file(std::vector<std::uint32_t>(8 * kibi, 1));
  int const status = child("touches last what another thread waits for", file.path()).wait();
  CHECK(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGBUS);
  CHECK(file.content()[5] == 4);
}

TEST_CASE("child: touches what cannot be read with the lock of stderr") {
  if (!is_part("touches what cannot be read with the lock of stderr")) return;
  shared_memory memory;
  mapping const m = memory.map(given_path(), {.access = access::read_write, .eager = false});
  if (::truncate(given_path().c_str(), 4096) != 0) return;
  ::signal(SIGBUS, SIG_DFL);
  ::flockfile(stderr);
  static_cast<void>(*const_cast<std::uint32_t volatile*>(m.as<std::uint32_t>()));
}

TEST_CASE("shared ends: the line about bytes that cannot be had needs no lock of stderr") {
  scratch_folder const folder;
  named_file const file(std::vector<std::uint32_t>(64 * kibi, 5));
  std::string const output = folder / "output";
  child c("touches what cannot be read with the lock of stderr", file.path(),
          {.output_to = output});
  int const status = c.wait();
  CHECK(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGBUS);
  CHECK(has(text_of(output), file.path() + ": offset 0: the file became shorter"));
}

TEST_CASE("shared ends: each thread is told why its own launch was refused") {
  named_file const file(std::vector<std::uint32_t>(256 * kibi, 5));
  shared_memory memory;
  mapping const m = memory.map(file.path(), {.access = access::read_write, .eager = false});
  mapping const other = memory.allocate(4096);
  REQUIRE(::truncate(file.path().c_str(), 0) == 0);
  std::atomic<bool> stops{false};
  std::thread launcher([&] {
    stream on;
    while (!stops) {
      shared_call call(&on);
      call.writes(other);
      launch(call, add_to_all, 1, 32, other.as<std::uint32_t>(), std::uint64_t(32), 1u);
      on.synchronize();
    }
  });
  unsigned without_path = 0;
  for (unsigned i = 0; i < scaled(200, 30); ++i) {
    shared_call call;
    call.reads(m);
    CHECK(call.release() == -ESTALE);
    if (!has(call.why_refused(), file.path())) ++without_path;
  }
  stops = true;
  launcher.join();
  CHECK(without_path == 0);
}

TEST_CASE("shared ends: acquire() says that a file which is only read has become shorter") {
  named_file const file(std::vector<std::uint32_t>(64 * kibi, 5));
  shared_memory memory;
  mapping m = memory.map(file.path());
  CHECK(m.acquire(0, m.size(), access::read) == 0);
  REQUIRE(::truncate(file.path().c_str(), 8192) == 0);
  CHECK(m.acquire(0, 8192, access::read) == 0);
  CHECK(m.acquire(4096, 8192, access::read) == -ESTALE);
  CHECK(m.errors().size() == 1);
}

#if defined(GPUFS_EMULATED)
// On a GPU a child of fork() ends by _exit(): CUDA has handlers of its own.
TEST_CASE("shared ends: a child of fork() ends by exit() while other threads launch") {
  named_file const file(std::vector<std::uint32_t>(1 * kibi, 5));
  shared_memory memory;
  mapping const with_file = memory.map(file.path(), {.access = access::read_write});
  mapping const m = memory.allocate(4096);
  std::atomic<bool> stops{false};
  std::vector<std::thread> launchers;
  for (unsigned i = 0; i < 2; ++i)
    launchers.emplace_back([&, i] {
      while (!stops) {
        launch(add_to_all, 1, 1, m.as<std::uint32_t>() + i, std::uint64_t(1), 1u);
        gpufs::synchronize();
      }
    });
  for (unsigned i = 0; i < scaled(300, 20); ++i) {
    std::fflush(nullptr);  // or the child writes it, too
    pid_t const pid = ::fork();
    if (pid == 0) {
      ::alarm(60);
      std::exit(0);
    }
    REQUIRE(pid > 0);
    int status = 0;
    REQUIRE(::waitpid(pid, &status, 0) == pid);
    REQUIRE(WIFEXITED(status));
  }
  stops = true;
  for (auto& t : launchers) t.join();
}
#endif
