// Shared memory with wait_on_touch off: the CPU reads what a kernel has stored while it runs, and
// nothing that either side writes is lost.
#include <gpufs/mapping.hpp>

#include <test/mapping/budgets.hpp>
#include <test/mapping/held_kernels.hpp>
#include <test/mapping/kernels.hpp>
#include <test/mapping/named_file.hpp>
#include <test/support/files.hpp>
#include <test/support/seed.hpp>
#include <test/support/settings.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

using namespace gpufs;
using namespace gpufs::test;

namespace {
std::atomic<int> protections_to_refuse{0};
}  // namespace

// The library's calls come here.
extern "C" int mprotect(void* at, std::size_t bytes, int protection) noexcept {
  for (int now = protections_to_refuse.load(); now > 0;)
    if (protections_to_refuse.compare_exchange_weak(now, now - 1)) {
      errno = ENOMEM;
      return -1;
    }
  return int(::syscall(SYS_mprotect, at, bytes, protection));
}

namespace {

constexpr std::uint64_t kibi = 1 << 10, mebi = 1 << 20;

struct kind_of_memory {
  char const* name;
  mapping_config settings;
  coherence_protocol protocol;
};

/// Objects in GPU memory by blocks and as a whole, and at the host.
std::vector<kind_of_memory> kinds() {
  auto const small = settings_of_suite(4 * kibi);
  auto at_host = small;
  at_host.device_memory = 1;
  return {{"rolling", small, coherence_protocol::rolling},
          {"lazy", small, coherence_protocol::lazy},
          {"at the host", at_host, coherence_protocol::rolling}};
}

map_options unwaiting(coherence_protocol protocol = coherence_protocol::rolling) {
  return {.protocol = protocol, .wait_on_touch = false};
}

std::uint64_t count_other_than(mapping const& m, std::uint32_t value) {
  std::uint64_t wrong = 0;
  for (std::uint64_t i = 0; i < m.size() / 4; ++i) wrong += m.as<std::uint32_t>()[i] != value;
  return wrong;
}

/// For n = 1.. `rounds`: stores n to the words, and goes on when the host has seen it.
__global__ void count_up(std::uint32_t* words, std::uint64_t count, std::uint32_t rounds,
                         std::uint32_t* handshake) {
  for (std::uint32_t n = 1; n <= rounds; ++n) {
    for (std::uint64_t i = 0; i < count; ++i)
      shared_word(words[i]).store(n, gpufs::memory_order_relaxed);
    wait_in_kernel(handshake[1], n);
  }
}

/// Waits for the host, and then adds `what` to every second word.
__global__ void add_to_even_words(std::uint32_t* words, std::uint64_t count, std::uint32_t what,
                                  std::uint32_t* handshake) {
  shared_word(handshake[0]).store(1, gpufs::memory_order_release);
  wait_in_kernel(handshake[1], 1);
  for (std::uint64_t i = 0; i < count; i += 2) words[i] += what;
}

/// The same without a store.
__global__ void hold(std::uint32_t const* words, std::uint32_t* handshake) {
  shared_word(handshake[0]).store(1 + words[0], gpufs::memory_order_release);
  wait_in_kernel(handshake[1], 1);
}

}  // namespace

TEST_CASE("glimpses: the CPU reads what a kernel has stored, while the kernel waits for it") {
  for (auto const& kind : kinds()) {
    CAPTURE(std::string(kind.name));
    shared_memory memory(kind.settings);
    auto const m = memory.allocate(64 * kibi + 4, unwaiting(kind.protocol));
    std::uint64_t const count = m.size() / 4;
    for (std::uint32_t round = 1; round <= 3; ++round) {
      handshake with;
      shared_call call;
      call.writes(m);
      launch(call, store_in_halves, 1, 1, for_kernels(m), count, round, with.data());
      with.wait_for_kernel(1);
      // Without an end, if a touch waits for the call.
      CHECK(word_at(m, 0) == round);
      CHECK(word_at(m, count / 2 - 1) == round);
      CHECK(word_at(m, count - 1) == round - 1);
      with.let_go();
      memory.synchronize();
      // Not what was seen before.
      CHECK(count_other_than(m, round) == 0);
    }
  }
}

TEST_CASE("glimpses: undeclared launches are read beside as well") {
  shared_memory memory(settings_of_suite());
  auto const m = memory.allocate(4 * mebi, unwaiting());
  std::uint64_t const count = m.size() / 4;
  for (std::uint64_t i = 0; i < count; ++i) m.as<std::uint32_t>()[i] = 5;
  handshake with;
  launch(add_to_even_words, 1, 1, for_kernels(m), count, 3u, with.data());
  with.wait_for_kernel(1);
  for (std::uint64_t i = 0; i < count; i += 1000) CHECK(word_at(m, i) == 5);
  with.let_go();
  memory.synchronize();
  CHECK(m.as<std::uint32_t>()[0] == 8);
  CHECK(m.as<std::uint32_t>()[1] == 5);
}

TEST_CASE("glimpses: a CPU thread that reads again and again sees what is new") {
  for (auto const& kind : kinds()) {
    CAPTURE(std::string(kind.name));
    shared_memory memory(kind.settings);
    auto const m = memory.allocate(16 * kibi, unwaiting(kind.protocol));
    constexpr std::uint32_t rounds = 20;
    handshake with;
    shared_call call;
    call.writes(m);
    launch(call, count_up, 1, 1, for_kernels(m), m.size() / 4, rounds, with.data());
    for (std::uint32_t n = 1; n <= rounds; ++n) {
      // The last word is the last one that is stored. The first one may be seen later.
      while (word_at(m, m.size() / 4 - 1) < n) ::sched_yield();
      while (word_at(m, 0) < n) ::sched_yield();
      with.let_go(n);
    }
    memory.synchronize();
    CHECK(count_other_than(m, rounds) == 0);
  }
}

TEST_CASE("glimpses: a thread that polls the object alone gets on when the kernel has ended") {
  shared_memory memory(settings_of_suite());
  auto const m = memory.allocate(1 * mebi, unwaiting());
  handshake with;
  with.let_go();
  for (std::uint32_t round = 1; round <= 10; ++round) {
    shared_call call;
    call.writes(m);
    launch(call, store_in_halves, 1, 1, for_kernels(m), m.size() / 4, round, with.data());
    while (word_at(m, m.size() / 4 - 1) != round) ::sched_yield();
  }
  memory.synchronize();
  CHECK(count_other_than(m, 10) == 0);
}

TEST_CASE("glimpses: what the CPU writes while a call runs is not lost, whichever the call does") {
  for (auto const& kind : kinds()) {
    for (bool const call_writes : {true, false}) {
      CAPTURE(std::string(kind.name));
      CAPTURE(call_writes);
      shared_memory memory(kind.settings);
      auto const m = memory.allocate(32 * kibi, unwaiting(kind.protocol));
      auto* const words = m.as<std::uint32_t>();
      std::uint64_t const count = m.size() / 4;
      handshake with;
      {
        shared_call call;
        if (call_writes) {
          call.reads_writes(m);
          launch(call, add_to_even_words, 1, 1, for_kernels(m), count, 7u, with.data());
        } else {
          call.reads(m);
          launch(call, hold, 1, 1, for_kernels(m), with.data());
        }
      }
      with.wait_for_kernel(1);
      // Some blocks are seen before, some are not.
      CHECK(word_at(m, 2) == 0);
      std::atomic<bool> begins{false};
      std::thread writer([&] {
        begins = true;
        // Words of its own. It waits for the call, or the words are stored where the call's are.
        for (std::uint64_t i = 1; i < count; i += 512) words[i] = static_cast<std::uint32_t>(i);
      });
      while (!begins) ::sched_yield();
      for (int i = 0; i < 1000; ++i) ::sched_yield();  // time to do wrong
      with.let_go();
      writer.join();
      memory.synchronize();
      CHECK(memory.stats().faults_spurious < 100);  // the writer sleeps
      std::uint64_t wrong = 0;
      for (std::uint64_t i = 0; i < count; ++i) {
        std::uint32_t const stored = i % 512 == 1 ? static_cast<std::uint32_t>(i) : 0;
        wrong += words[i] != (i % 2 == 0 && call_writes ? 7u : stored);
      }
      CHECK(wrong == 0);
      // The device has them, too.
      launch(add_to_all, 1, 32, for_kernels(m), count, 1u);
      memory.synchronize();
      CHECK(words[513] == 514);
    }
  }
}

TEST_CASE("glimpses: bytes seen during one call are not taken for those of the next one's end") {
  shared_memory memory(settings_of_suite());
  auto const m = memory.allocate(256 * kibi, unwaiting());
  auto const other = memory.allocate(256 * kibi, unwaiting());
  std::uint64_t const count = m.size() / 4;
  stream a, b;
  for (std::uint32_t round = 1; round <= 10; ++round) {
    handshake first, second;
    shared_call one(&a), two(&b);
    one.writes(m);
    two.writes(other);
    launch(one, store_in_halves, 1, 1, for_kernels(m), count, round, first.data());
    launch(two, store_in_halves, 1, 1, for_kernels(other), count, round, second.data());
    first.wait_for_kernel(1);
    second.wait_for_kernel(1);
    CHECK(word_at(m, count - 1) == round - 1);
    CHECK(word_at(other, count - 1) == round - 1);
    first.let_go();
    memory.synchronize(a);
    CHECK(count_other_than(m, round) == 0);
    CHECK(word_at(other, count - 1) == round - 1);
    second.let_go();
    memory.synchronize(b);
    CHECK(count_other_than(other, round) == 0);
  }
}

TEST_CASE("glimpses: a file that is read beside its kernels is written back as they leave it") {
  std::vector<std::uint32_t> const content(64 * kibi, 1);
  named_file const file(content);
  shared_memory memory(settings_of_suite());
  auto options = unwaiting();
  options.access = access::read_write;
  mapping m = memory.map(file.path(), options);
  for (std::uint32_t round = 2; round <= 5; ++round) {
    handshake with;
    shared_call call;
    call.reads_writes(m);
    launch(call, store_in_halves, 1, 1, for_kernels(m), content.size(), round, with.data());
    with.wait_for_kernel(1);
    CHECK(word_at(m, content.size() - 1) == round - 1);
    with.let_go();
    CHECK(m.sync() == 0);
    CHECK(file.content() == std::vector<std::uint32_t>(content.size(), round));
  }
  CHECK(m.unmap() == 0);
}

TEST_CASE("glimpses: acquire() waits for the call, and has what it leaves") {
  for (auto const& kind : kinds()) {
    CAPTURE(std::string(kind.name));
    shared_memory memory(kind.settings);
    auto m = memory.allocate(64 * kibi, unwaiting(kind.protocol));
    std::uint64_t const count = m.size() / 4;
    handshake with;
    shared_call call;
    call.writes(m);
    launch(call, store_in_halves, 1, 1, for_kernels(m), count, 3u, with.data());
    with.wait_for_kernel(1);
    CHECK(word_at(m, count - 1) == 0);
    std::atomic<bool> is_ready{false};
    std::thread acquirer([&] {
      CHECK(m.acquire(0, m.size(), access::read_write) == 0);
      is_ready = true;
      CHECK(count_other_than(m, 3) == 0);
      m.as<std::uint32_t>()[count - 1] = 9;
    });
    for (int i = 0; i < 1000; ++i) CHECK(word_at(m, count - 1) == 0);
    CHECK(!is_ready);
    with.let_go();
    acquirer.join();
    launch(add_to_all, 1, 32, for_kernels(m), count, 1u);
    memory.synchronize();
    CHECK(m.as<std::uint32_t>()[0] == 4);
    CHECK(m.as<std::uint32_t>()[count - 1] == 10);
  }
}

TEST_CASE("glimpses: write-backs beside readers write what kernels have left") {
  std::uint64_t const count = 32 * kibi;
  named_file const file(std::vector<std::uint32_t>(count, 0));
  shared_memory memory(settings_of_suite(4 * kibi));
  auto options = unwaiting();
  options.access = access::read_write;
  mapping m = memory.map(file.path(), options);
  std::atomic<bool> stops{false};
  std::atomic<std::uint64_t> wrong{0};
  std::thread reader([&] {
    for (std::uint64_t i = 0; !stops; i = (i + 1009) % count) wrong += word_at(m, i) > 1000;
  });
  for (std::uint32_t round = 1; round <= scaled(30, 6); ++round) {
    handshake with;
    with.let_go();
    shared_call call;
    call.writes(m);
    launch(call, store_in_halves, 1, 1, for_kernels(m), count, round, with.data());
    CHECK(m.sync() == 0);
    CHECK(file.content() == std::vector<std::uint32_t>(count, round));
  }
  stops = true;
  reader.join();
  CHECK(wrong == 0);
}

namespace {
__global__ void fail_when_told(std::uint32_t* words, std::uint32_t* handshake) {
  shared_word(words[0]).store(4, gpufs::memory_order_relaxed);
  shared_word(handshake[0]).store(1, gpufs::memory_order_release);
  wait_in_kernel(handshake[1], 1);
  __trap();
}
}  // namespace

TEST_CASE("glimpses: a call that fails leaves the bytes that the CPU has seen (emulated device)") {
  if (current_device().kind != "emulated") return;  // a GPU's context is lost
  shared_memory memory(settings_of_suite());
  auto const m = memory.allocate(64 * kibi, unwaiting());
  stream on;
  handshake with;
  {
    shared_call call(&on);
    call.reads_writes(m);
    launch(call, fail_when_told, 1, 1, for_kernels(m), with.data());
  }
  with.wait_for_kernel(1);
  CHECK(word_at(m, 0) == 4);
  with.let_go();
  CHECK_THROWS_AS(on.synchronize(), device_error);
  CHECK(word_at(m, 0) == 4);
  m.as<std::uint32_t>()[1] = 5;
  launch(add_to_all, 1, 32, for_kernels(m), m.size() / 4, 1u);
  memory.synchronize();
  CHECK(m.as<std::uint32_t>()[0] == 5);
  CHECK(m.as<std::uint32_t>()[1] == 6);
}

TEST_CASE("glimpses: a system without further mappings costs copies, and no bytes") {
  for (auto const& kind : kinds()) {
    CAPTURE(std::string(kind.name));
    shared_memory memory(kind.settings);
    auto const m = memory.allocate(64 * kibi, unwaiting(kind.protocol));
    std::uint64_t const count = m.size() / 4;
    for (std::uint32_t round = 1; round <= 30; ++round) {
      handshake with;
      shared_call call;
      call.writes(m);
      launch(call, store_in_halves, 1, 1, for_kernels(m), count, round, with.data());
      with.wait_for_kernel(1);
      // Refused is what opens the block, or what closes it, by time or at the call's end.
      if (round % 2 == 0) protections_to_refuse = separate_sides ? 1 : 0;
      CHECK(word_at(m, 0) == round);
      if (round % 2 == 1) protections_to_refuse = separate_sides ? 1 + int(round % 3) : 0;
      with.let_go();
      memory.synchronize();
      protections_to_refuse = 0;
      CHECK(count_other_than(m, round) == 0);
    }
  }
}

TEST_CASE("glimpses: objects that move and are spilled are read meanwhile") {
  if (separate_sides) return;  // kernels' addresses depend on where chunks lie
  scratch_folder const folder;
  auto config = tight(2 * mebi, 0);
  config.spill_dir = folder.path();
  shared_memory memory(config);
  constexpr unsigned objects = 7;
  std::vector<mapping> all;
  for (unsigned n = 0; n < objects; ++n) all.push_back(memory.allocate(2 * mebi, unwaiting()));
  std::uint64_t const count = mebi / 2;
  std::atomic<bool> stops{false};
  std::atomic<std::uint64_t> wrong{0};
  std::thread reader([&] {
    std::mt19937_64 random(seed());
    std::vector<std::uint32_t> last(objects);
    while (!stops) {
      auto const n = random() % objects;
      auto const now = word_at(all[n], 1000 * n);
      wrong += now < last[n];
      last[n] = now;
    }
  });
  for (std::uint32_t round = 1; round <= scaled(2, 1); ++round) {
    for (auto const& m : all) {
      shared_call call;
      call.reads_writes(m);
      // One thread, so that no word is stored twice.
      handshake with;
      with.let_go();
      launch(call, store_in_halves, 1, 1, for_kernels(m), count / 64, round, with.data());
      memory.synchronize();
    }
  }
  stops = true;
  reader.join();
  CHECK(wrong == 0);
  for (auto const& m : all) CHECK(m.as<std::uint32_t>()[count / 64 - 1] == scaled(2, 1));
}

TEST_CASE("glimpses: other objects and batch objects are what they were") {
  shared_memory memory(settings_of_suite());
  auto const waits = memory.allocate(64 * kibi);
  auto const batch = memory.allocate(64 * kibi, unwaiting(coherence_protocol::batch));
  auto* const words = batch.as<std::uint32_t>();
  for (std::uint32_t round = 1; round <= 3; ++round) {
    words[1] = round;
    shared_call call;
    call.reads_writes(batch).reads_writes(waits);
    launch(call, add_to_all, 1, 32, for_kernels(batch), batch.size() / 4, 1u);
    memory.synchronize();
    CHECK(words[0] == round);
    CHECK(words[1] == round + 1);
    CHECK(count_other_than(waits, 0) == 0);
  }
  CHECK(memory.stats().glimpsed_blocks == 0);
}

// Random reads of many threads while kernels store. Each word goes up only, and after
// synchronize() it is what the kernel has left.
TEST_CASE("glimpses: threads read all over an object while calls run and end") {
  CAPTURE(seed());
  auto config = settings_of_suite(4 * kibi);
  for (bool const at_host : {false, true}) {
    CAPTURE(at_host);
    if (at_host) config.device_memory = 1;
    shared_memory memory(config);
    auto const m = memory.allocate(128 * kibi, unwaiting());
    std::uint64_t const count = m.size() / 4;
    unsigned const rounds = scaled(60, 10);
    std::atomic<bool> stops{false};
    std::atomic<std::uint64_t> wrong{0};
    std::vector<std::thread> readers;
    for (unsigned t = 0; t < 3; ++t)
      readers.emplace_back([&, t] {
        std::mt19937_64 random(seed() + t);
        std::uint64_t const own = random() % count;
        for (std::uint32_t last = 0; !stops;) {
          auto const now = word_at(m, own);
          wrong += now < last || now > rounds;
          last = now;
          wrong += word_at(m, random() % count) > rounds;
        }
      });
    for (std::uint32_t round = 1; round <= rounds; ++round) {
      handshake with;
      with.let_go();
      shared_call call;
      call.writes(m);
      launch(call, store_in_halves, 1, 1, for_kernels(m), count, round, with.data());
      memory.synchronize();
      for (std::uint64_t i = 0; i < count; i += 97) wrong += word_at(m, i) != round;
    }
    stops = true;
    for (auto& r : readers) r.join();
    CHECK(wrong == 0);
    CHECK(count_other_than(m, rounds) == 0);
  }
}
