// Objects that do not fit into device memory: what lies where, what moves, what is refused.
#include <gpufs/mapping.hpp>

#include <test/mapping/budgets.hpp>
#include <test/mapping/kernels.hpp>
#include <test/mapping/named_file.hpp>
#include <test/mapping/numbers.hpp>
#include <test/support/child.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

using namespace gpufs;
using namespace gpufs::test;

namespace {

constexpr std::uint64_t words_of_mebi = mebi / 4;

__global__ void copy_one(std::uint32_t* to, std::uint32_t const* from) {
  if (thread_number() == 0) *to = *from;
}

bool is(mapping const& m, words const& expected) {
  return std::equal(expected.begin(), expected.end(), m.as<std::uint32_t>());
}

bool is(memory_tiers const& t, std::uint64_t device, std::uint64_t host, std::uint64_t away) {
  return t.device == device && t.host == host && t.away == away;
}

std::string refusal_of(auto const& launch) {
  try {
    launch();
  } catch (shared_memory_error const& e) {
    CHECK(e.code() == ENOMEM);
    return e.what();
  }
  return "";
}

}  // namespace

TEST_CASE("tiers: a kernel uses device memory and the host's in one object") {
  shared_memory memory(tight(4 * mebi, 6 * mebi));
  mapping m = memory.allocate(9 * mebi, {.block = mebi});
  CHECK(is(m.tiers(), 4 * mebi, 0, 6 * mebi));
  auto plain = numbers(9 * words_of_mebi);
  std::iota(m.as<std::uint32_t>(), m.as<std::uint32_t>() + plain.size(), 1u);
  launch(add_to_all, 4, 64, m.as<std::uint32_t>(), plain.size(), 3u);
  CHECK(is(m.tiers(), 4 * mebi, 6 * mebi, 0));
  for (auto& w : plain) w += 3;
  memory.synchronize();
  CHECK(is(m, plain));
  // The front went to the device and back, by its blocks. Nothing else was moved.
  auto const s = m.stats();
  CHECK(s.bytes_h2d == 4 * mebi);
  CHECK(s.bytes_d2h == 4 * mebi);
  CHECK(s.moves == 3);
  // Each block of the front, and each chunk at the host once.
  CHECK(s.faults_read == 4 + 3);
  launch(add_to_all, 4, 64, m.as<std::uint32_t>(), plain.size(), 4u);
  for (auto& w : plain) w += 4;
  memory.synchronize();
  CHECK(is(m, plain));
  CHECK(m.stats().bytes_h2d == 4 * mebi);
  CHECK(m.stats().moves == 3);
}

TEST_CASE("tiers: without device memory all lies at the host, and nothing is copied") {
  shared_memory memory(tight(1, 8 * mebi));
  mapping a = memory.allocate(3 * mebi),
          b = memory.allocate(4 * mebi, {.protocol = coherence_protocol::batch});
  a.as<std::uint32_t>()[5] = 7;
  launch(copy_one, 1, 1, b.as<std::uint32_t>() + words_of_mebi * 3,
         a.as<std::uint32_t const>() + 5);
  memory.synchronize();
  CHECK(b.as<std::uint32_t>()[words_of_mebi * 3] == 7);
  CHECK(memory.stats().bytes_h2d + memory.stats().bytes_d2h == 0);
  CHECK(is(memory.tiers(), 0, 8 * mebi, 0));
}

TEST_CASE("tiers: a launch of more than there is is refused, and nothing is lost") {
  shared_memory memory(tight(2 * mebi, 2 * mebi));
  mapping m = memory.allocate(8 * mebi);
  auto plain = numbers(8 * words_of_mebi);
  std::iota(m.as<std::uint32_t>(), m.as<std::uint32_t>() + plain.size(), 1u);
  auto const all = [&] { launch(add_to_all, 1, 64, m.as<std::uint32_t>(), plain.size(), 3u); };
  CHECK(refusal_of(all) ==
        "shared memory: an anonymous object: 8.0 MiB mapped, and a launch may use 8.0 MiB of "
        "shared objects in chunks of 2.0 MiB, device_memory is 2.0 MiB and host_memory 2.0 MiB: "
        "declare the ranges that it uses (shared_call), use for_each_window(), free objects, raise "
        "device_memory or host_memory, or set backing = managed");
  shared_call call;
  CHECK(call.reads(m).release() == -ENOMEM);
  CHECK(call.why_refused().starts_with("an anonymous object: 8.0 MiB mapped"));
  CHECK(is(m, plain));
  // By declared ranges all of it can be had, in any order.
  for (std::uint64_t const part : {3, 0, 2, 1, 0}) {
    auto const first = part * 2 * mebi;
    shared_call some;
    some.reads_writes(m, first, 2 * mebi);
    launch(some, add_to_all, dim3(1), dim3(64), m.as<std::uint32_t>() + first / 4,
           2 * words_of_mebi, std::uint32_t(part + 1));
    for (auto i = first / 4; i < first / 4 + 2 * words_of_mebi; ++i)
      plain[i] += std::uint32_t(part + 1);
    auto const now = memory.tiers();
    CHECK(now.device <= 2 * mebi);
    CHECK(now.host <= 2 * mebi);
  }
  memory.synchronize();
  CHECK(is(m, plain));
  CHECK(refusal_of(all) != "");
  CHECK(is(m, plain));
}

TEST_CASE("tiers: a file larger than all memory, by declared ranges, is read and written back") {
  auto content = numbers(11 * words_of_mebi + 3);
  named_file const file(content);
  shared_memory memory(tight(4 * mebi, 2 * mebi));
  mapping m = memory.map(file.path(), {.access = access::read_write});
  for (unsigned round = 0; round < 2; ++round) {
    for (std::uint64_t first = 0; first < content.size(); first += words_of_mebi) {
      auto const count = std::min<std::uint64_t>(words_of_mebi, content.size() - first);
      shared_call call;
      call.reads_writes(m, first * 4, count * 4);
      launch(call, add_to_all, dim3(1), dim3(64), m.as<std::uint32_t>() + first, count, 5u);
      for (auto i = first; i < first + count; ++i) content[i] += 5;
    }
  }
  m.as<std::uint32_t>()[7] = content[7] = 1;
  CHECK(m.sync() == 0);
  CHECK(file.content() == content);
  CHECK(m.unwritten().empty());
  CHECK(m.unmap() == 0);
  CHECK(file.content() == content);
}

TEST_CASE("tiers: what a file has as well is not fetched from the device") {
  auto const content = numbers(8 * words_of_mebi);
  named_file const file(content);
  shared_memory memory(tight(2 * mebi, 0));
  mapping m = memory.map(file.path(), {.access = access::read_write, .eager = false});
  for (std::uint64_t first = 0; first < 8 * mebi; first += 2 * mebi) {
    shared_call call;
    CHECK(call.reads(m, first, 2 * mebi).release() == 0);
    call.launched();
  }
  CHECK(m.stats().fill_bytes == 8 * mebi);
  CHECK(m.stats().moves >= 4);
  CHECK(m.stats().bytes_d2h == 0);
}

TEST_CASE("tiers: a file that is only read is used in the OS page cache") {
  auto const content = numbers(6 * words_of_mebi);
  named_file const file(content);
  shared_memory memory(tight(4 * mebi, 8 * mebi));
  mapping sum = memory.allocate(8);
  mapping m = memory.map(file.path());
  launch(sum_words, 1, 32, m.as<std::uint32_t const>(), content.size(), sum.as<std::uint64_t>());
  memory.synchronize();
  CHECK(*sum.as<std::uint64_t>() == std::accumulate(content.begin(), content.end(), 0ull));
  CHECK(m.tiers().host == 4 * mebi);
  CHECK(m.stats().fill_bytes == 2 * mebi);
  // Others write to it.
  file.write({5}, (6 * words_of_mebi - 1) * 4);
  CHECK(m.refresh() == 0);
  launch(sum_words, 1, 32, m.as<std::uint32_t const>() + 6 * words_of_mebi - 1, 1,
         sum.as<std::uint64_t>());
  memory.synchronize();
  CHECK(*sum.as<std::uint64_t>() == 5);
}

TEST_CASE("tiers: advice puts the end of an object into device memory") {
  shared_memory memory(tight(2 * mebi, 8 * mebi));
  mapping m = memory.allocate(6 * mebi);
  CHECK(m.advise(4 * mebi, 2 * mebi, memory_advice::device) == 0);
  CHECK(m.advise(4 * mebi, 2 * mebi + 1, memory_advice::device) == -EINVAL);
  CHECK(mapping().advise(0, 0, memory_advice::host) == -EINVAL);
  m.as<std::uint32_t>()[5 * words_of_mebi] = 8;
  m.as<std::uint32_t>()[0] = 9;
  launch(add_to_all, 1, 64, m.as<std::uint32_t>(), 6 * words_of_mebi, 1u);
  memory.synchronize();
  auto const before = m.stats();
  CHECK(m.as<std::uint32_t>()[5 * words_of_mebi] == 9);
  CHECK((m.stats() - before).bytes_d2h != 0);  // it was there
  CHECK(m.as<std::uint32_t>()[0] == 10);
}

TEST_CASE("tiers: a call that is not launched yet keeps its memory") {
  shared_memory memory(tight(2 * mebi, 0));
  mapping a = memory.allocate(2 * mebi), b = memory.allocate(2 * mebi);
  shared_call first, second;
  REQUIRE(first.reads_writes(a).release() == 0);
  CHECK(second.reads_writes(b).release() == -ENOMEM);
  CHECK(second.why_refused().find("2.0 MiB of which calls have that are not launched yet") !=
        std::string::npos);
  first.launched();
  shared_call third;
  REQUIRE(third.reads_writes(b).release() == 0);
  third.launched();
  CHECK(is(b.tiers(), 2 * mebi, 0, 0));
}

// 9 MiB, by ranges of 2 MiB.
static void add_by_ranges(mapping const& m) {
  for (std::uint64_t first = 0; first < m.size(); first += 2 * mebi) {
    auto const bytes = std::min(2 * mebi, m.size() - first);
    shared_call call;
    call.reads_writes(m, first, bytes);
    launch(call, add_to_all, dim3(1), dim3(64), m.as<std::uint32_t>() + first / 4, bytes / 4, 5u);
  }
}

TEST_CASE("child: ends with a changed object that is larger than all memory") {
  if (!is_part("ends with a changed object that is larger than all memory")) return;
  auto& memory = *new shared_memory(tight(4 * mebi, 2 * mebi));  // never destroyed
  auto& m = *new mapping(memory.map(given_path(), {.access = access::read_write}));
  add_by_ranges(m);
  m.as<std::uint32_t>()[3] = 4;
  std::exit(0);
}

TEST_CASE("tiers: what is changed is in the file when a process has ended by exit()") {
  auto content = numbers(9 * words_of_mebi);
  named_file const file(content);
  child c("ends with a changed object that is larger than all memory", file.path());
  CHECK(c.succeeds());
  for (auto& w : content) w += 5;
  content[3] = 4;
  CHECK(file.content() == content);
}

TEST_CASE("tiers: a child of fork() changes nothing, and waits for nothing") {
  auto content = numbers(9 * words_of_mebi);
  named_file const file(content);
  auto memory = std::make_unique<shared_memory>(tight(4 * mebi, 2 * mebi));
  mapping m = memory->map(file.path(), {.access = access::read_write});
  add_by_ranges(m);
  int status = 0;
  pid_t const pid = ::fork();
  if (pid == 0) {
    bool const is_refused = is(m.tiers(), 0, 0, 0) && is(memory->tiers(), 0, 0, 0) &&
                            m.advise(0, 4, memory_advice::device) == 0;
    static_cast<void>(m.unmap());
    memory.reset();
    ::_exit(is_refused ? 0 : 1);
  }
  REQUIRE(pid > 0);
  REQUIRE(::waitpid(pid, &status, 0) == pid);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  CHECK(m.unmap() == 0);
  for (auto& w : content) w += 5;
  CHECK(file.content() == content);
}

TEST_CASE("tiers: threads launch with more objects than fit, and touch them") {
  shared_memory memory(tight(4 * mebi, 4 * mebi));
  constexpr unsigned threads = 4, rounds = 20;
  std::vector<std::thread> all;
  for (unsigned t = 0; t < threads; ++t)
    all.emplace_back([&memory, t] {
      mapping m = memory.allocate(2 * mebi + 2 * mebi * (t % 2), {.block = 64 << 10});
      std::uint64_t const count = m.size() / 4;
      stream on;
      for (unsigned i = 0; i < rounds; ++i) {
        shared_call call(&on);
        try {
          call.reads_writes(m);
          launch(call, add_to_all, dim3(1), dim3(64), m.as<std::uint32_t>(), count, 1u);
        } catch (shared_memory_error const& e) {
          // Others have calls between release and launch.
          if (e.code() != ENOMEM) throw;
          --i;
          continue;
        }
        memory.synchronize(on);
        m.as<std::uint32_t>()[i * 1000] += 1;
      }
      for (std::uint64_t i = 0; i < count; ++i)
        REQUIRE(m.as<std::uint32_t>()[i] == rounds + (i % 1000 == 0 && i < rounds * 1000 ? 1 : 0));
    });
  for (auto& t : all) t.join();
}
