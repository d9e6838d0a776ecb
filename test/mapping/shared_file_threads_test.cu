// Threads that touch, launch, write back and unmap objects with files at the same time, and ends of
// processes.
#include <gpufs/mapping.hpp>

#include <test/mapping/held_kernels.hpp>
#include <test/mapping/kernels.hpp>
#include <test/mapping/named_file.hpp>
#include <test/support/child.hpp>
#include <test/support/files.hpp>
#include <test/support/settings.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace gpufs;
using namespace gpufs::test;

namespace {

constexpr std::uint64_t kibi = 1 << 10;

/// Called before fstat(2).
std::function<void()> on_status;

/// Its end comes behind that of all reads of files.
struct last_touch {
  mapping const* object = nullptr;
  ~last_touch() {
    if (object == nullptr) return;
    ::signal(SIGBUS, SIG_DFL);  // sanitizers end a process with a status of their own
    static_cast<void>(word_of(*object));
  }
  static std::uint32_t word_of(mapping const& m) {
    return *static_cast<std::uint32_t volatile const*>(m.as<std::uint32_t const>());
  }
} touched_last;

/// All words of a page get the same value.
__global__ void store_pages(std::uint32_t* words, std::uint64_t pages, std::uint32_t value) {
  for (auto i = thread_number(); i < pages * 1024; i += thread_count()) words[i] = value;
}

}  // namespace

extern "C" int fstat(int fd, struct ::stat* out) noexcept {
  if (on_status) on_status();
  return ::fstatat(fd, "", out, AT_EMPTY_PATH);
}

TEST_CASE("many threads touch a file's bytes while it is read ahead") {
  constexpr std::uint64_t words = 1024 * kibi;
  std::vector<std::uint32_t> content(words);
  for (std::uint64_t i = 0; i < words; ++i) content[i] = static_cast<std::uint32_t>(i * 7);
  named_file const file(content);
  shared_memory memory;
  mapping const m = memory.map(file.path(), {.access = access::read_write, .eager = true});
  std::atomic<std::uint64_t> wrong{0};
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < 6; ++t) {
    threads.emplace_back([&, t] {
      for (std::uint64_t i = t * 17; i < words; i += 5000)
        if (m.as<std::uint32_t>()[i] != content[i]) wrong.fetch_add(1);
    });
  }
  for (auto& t : threads) t.join();
  CHECK(wrong.load() == 0);
  CHECK(m.stats().fill_bytes == words * 4);  // nothing twice
}

TEST_CASE("an object that goes while it is read ahead waits for that") {
  named_file const file(std::vector<std::uint32_t>(2048 * kibi, 5));
  shared_memory memory;
  for (int round = 0; round < 20; ++round) {
    mapping m = memory.map(file.path(), {.access = access::read_write, .eager = true});
    if (round % 2 == 0) m.as<std::uint32_t>()[9] = 5;
    CHECK(m.unmap() == 0);
  }
}

TEST_CASE("pages that are written back while others launch are whole") {
  constexpr std::uint64_t pages = 64;
  named_file const file(std::vector<std::uint32_t>(pages * 1024, 0));
  shared_memory memory;
  mapping m = memory.map(file.path(), {.access = access::read_write, .block = 64 * kibi});
  std::atomic<bool> stops{false};
  std::thread launches([&] {
    for (std::uint32_t value = 1; !stops.load(); ++value)
      launch(store_pages, 2, 64, m.as<std::uint32_t>(), pages, value);
    memory.synchronize();
  });
  for (int round = 0; round < 20; ++round) {
    CHECK(m.write_back() == 0);
    auto const content = file.content();
    bool whole = true;
    // A call writes all pages, and is not written back in the middle.
    for (auto const word : content) whole = whole && word == content[0];
    CHECK(whole);
  }
  stops.store(true);
  launches.join();
  CHECK(m.unmap() == 0);
  auto const content = file.content();
  CHECK(content.front() == content.back());
}

TEST_CASE("a write-back that waits for a call leaves the CPU what no call uses") {
  constexpr std::uint64_t block = 64 * kibi, words = block / 4;
  std::vector<std::uint32_t> content(8 * words, 1);
  named_file const file(content);
  shared_memory memory;
  mapping m = memory.map(file.path(), {.access = access::read_write, .block = block});
  auto* const all = m.as<std::uint32_t>();
  handshake with;
  shared_call call;
  call.writes(m, 0, block);
  launch(call, store_in_halves, 1, 1, all, std::uint64_t(4), 9u, with.data());
  with.wait_for_kernel(1);
  std::thread writer([&] { CHECK(m.write_back() == 0); });
  for (int i = 0; i < 10'000; ++i) ::sched_yield();  // it waits by now, most probably
  all[5 * words] = content[5 * words] = 2;
  CHECK(m.acquire(6 * block, 4096, access::read_write) == 0);
  all[6 * words] = content[6 * words] = 3;
  CHECK(memory.set(all + 7 * words, 0, 4) == 0);
  content[7 * words] = 0;
  with.let_go();
  std::fill_n(content.begin(), 4, 9);
  writer.join();
  CHECK(file.content() == content);
}

TEST_CASE("remap() beside a thread that brings the object's bytes") {
  constexpr std::uint64_t words = 8 << 20;
  named_file const file(std::vector<std::uint32_t>(words, 3));
  for (bool const launches : {true, false}) {
    mapping_config c;
    c.fill_threads = 1;
    c.coherence_block = 64 * kibi;
    shared_memory memory(c);
    mapping m = memory.map(file.path(), {.access = access::read_write, .eager = false});
    mapping const sum = memory.allocate(8);
    std::thread other([&] {
      if (launches)
        launch(sum_words, 1, 1, m.as<std::uint32_t const>(), words, sum.as<std::uint64_t>());
      else
        CHECK(m.acquire(0, m.size(), access::read) == 0);
    });
    while (m.stats().fill_bytes == 0) ::sched_yield();
    int const error = m.remap(access::read);  // it waits for a part of the fill
    CHECK((error == 0 || error == -EBUSY));
    other.join();
    memory.synchronize();
    if (launches) CHECK(*sum.as<std::uint64_t>() == words * 3);
  }
}

TEST_CASE("remap() looks at a file that another thread's remap() replaces") {
  std::vector<std::uint32_t> content(8 * kibi, 3);
  named_file const file(content);
  shared_memory memory;
  mapping m = memory.map(file.path(), {.access = access::read_write});
  std::atomic<bool> looks{false}, is_replaced{false};
  on_status = [&] {
    if (looks.exchange(true)) return;
    while (!is_replaced) ::sched_yield();
  };
  int error = 0;
  std::thread other([&] { error = m.remap(access::write); });
  while (!looks) ::sched_yield();
  CHECK(m.remap(access::read) == 0);
  is_replaced = true;
  other.join();
  on_status = nullptr;
  REQUIRE(error == 0);
  for (auto const i : {6, 7}) m.as<std::uint32_t>()[i] = content[std::size_t(i)] = 5;
  CHECK(m.unmap() == 0);
  CHECK(file.content() == content);
}

TEST_CASE("remap() again and again beside launches") {
  constexpr std::uint64_t words = 64 * kibi;
  named_file const file(std::vector<std::uint32_t>(words, 3));
  shared_memory memory;
  mapping m = memory.map(file.path(), {.access = access::read_write});
  mapping const sum = memory.allocate(8);
  std::atomic<bool> stops{false};
  std::uint64_t wrong = 0;
  std::thread other([&] {
    while (!stops.load()) {
      launch(sum_words, 1, 1, m.as<std::uint32_t const>(), words, sum.as<std::uint64_t>());
      memory.synchronize();
      wrong += *sum.as<std::uint64_t>() == words * 3 ? 0 : 1;
    }
  });
  for (int round = 0; round < 300; ++round) {
    int const error = m.remap(round % 2 == 0 ? access::read : access::read_write);
    CHECK((error == 0 || error == -EBUSY));
  }
  stops.store(true);
  other.join();
  CHECK(wrong == 0);
}

TEST_CASE("child: ends with a changed object") {
  if (!is_part("ends with a changed object")) return;
  auto& memory = *new shared_memory;  // never destroyed
  auto& m = *new mapping(memory.map(given_path(), {.access = access::read_write}));
  launch(store_pages, 2, 64, m.as<std::uint32_t>(), std::uint64_t(3), 9u);
  m.as<std::uint32_t>()[5 * 1024] = 4;
  std::exit(0);
}

TEST_CASE("what is changed is in the file when a process has ended by exit()") {
  named_file const file(std::vector<std::uint32_t>(8 * 1024, 1));
  child c("ends with a changed object", file.path());
  CHECK(c.succeeds());
  std::vector<std::uint32_t> expected(8 * 1024, 1);
  for (std::uint64_t i = 0; i < 3 * 1024; ++i) expected[i] = 9;
  expected[5 * 1024] = 4;
  CHECK(file.content() == expected);
}

TEST_CASE("child: ends while a static object touches a file") {
  if (!is_part("ends while a static object touches a file")) return;
  auto& memory = *new shared_memory;  // never destroyed
  touched_last.object =
      new mapping(memory.map(given_path(), {.access = access::read_write, .eager = false}));
  std::exit(0);
}

TEST_CASE("a touch behind the end of all reads gets SIGBUS and does not hang") {
  named_file const file(std::vector<std::uint32_t>(8 * 1024, 1));
  child c("ends while a static object touches a file", file.path());
  int const status = c.wait();
  CHECK(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGBUS);
}

TEST_CASE("a child of fork() writes nothing back") {
  named_file const file(std::vector<std::uint32_t>(8 * 1024, 1));
  auto memory = std::make_unique<shared_memory>();
  mapping m = memory->map(file.path(), {.access = access::read_write});
  m.as<std::uint32_t>()[3] = 2;
  int status = 0;
  pid_t const pid = ::fork();
  if (pid == 0) {
    static_cast<void>(m.sync());
    static_cast<void>(m.unmap());
    ::_exit(0);
  }
  REQUIRE(pid > 0);
  REQUIRE(::waitpid(pid, &status, 0) == pid);
  CHECK(WIFEXITED(status));
  CHECK(file.content()[3] == 1);
  CHECK(m.unmap() == 0);
  CHECK(file.content()[3] == 2);
}
